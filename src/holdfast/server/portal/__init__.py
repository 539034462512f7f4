"""The portal: the whole product in a browser, rendered here. Scripts make pages live; reading needs none."""
