// The log view. Reading works without this.
