// A token to hand to other clients.
"use strict";

const { client, tell } = require("./pai");

tell(async () => (await client("ann").authn.basicLogin()).token);
