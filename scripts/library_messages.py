"""Error messages of Python and of libraries that appear in Holdfast's messages: about YAML, JSON and patterns."""

YAML_MESSAGES = (
    "while parsing a block collection", "while parsing a block mapping", "while parsing a block node",
    "while parsing a flow mapping", "while parsing a flow node", "while parsing a flow sequence",
    "while parsing a node", "while parsing a quoted scalar", "while parsing a tag", "while scanning a block scalar",
    "while scanning a directive", "while scanning a plain scalar", "while scanning a quoted scalar",
    "while scanning a simple key", "while scanning a tag", "while scanning an alias", "while scanning an anchor",
    "while scanning for the next token", "did not find expected key", "did not find expected '-' indicator",
    "did not find expected ',' or '}'", "did not find expected ',' or ']'", "did not find expected node content",
    "did not find expected <document start>", "did not find expected alphabetic or numeric character",
    "did not find expected comment or line break", "did not find expected whitespace or line break",
    "could not find expected ':'", "found undefined tag handle", "found unexpected end of stream",
    "found unexpected document indicator", "found unknown directive name", "found unknown escape character",
    "found invalid Unicode character escape code", "found character that cannot start any token",
    "found a tab character that violates indentation", "block sequence entries are not allowed in this context",
    "found a tab character where an indentation space is expected", "mapping values are not allowed in this context",
    "mapping keys are not allowed in this context", "control characters are not allowed", "invalid leading UTF-8 octet",
)  # fmt: skip
JSON_MESSAGES = (
    "Expecting value", "Expecting property name enclosed in double quotes", "Expecting ':' delimiter",
    "Expecting ',' delimiter", "Unterminated string starting at", "Invalid control character at", "Invalid \\escape",
    "Invalid \\uXXXX escape", "Extra data", "Illegal trailing comma before end of object",
    "Illegal trailing comma before end of array",
)  # fmt: skip
PATTERN_MESSAGES = (
    "nothing to repeat at position {at}", "multiple repeat at position {at}",
    "unbalanced parenthesis at position {at}", "bad character range {range} at position {at}",
    "unterminated character set at position {at}", "missing ), unterminated subpattern at position {at}",
    "missing {sign}, unterminated name at position {at}", "bad escape {escape} at position {at}",
    "unknown extension {extension} at position {at}", "min repeat greater than max repeat at position {at}",
    "invalid group reference {number} at position {at}", "look-behind requires fixed-width pattern",
    "unexpected end of pattern at position {at}",
)  # fmt: skip
LIBRARY_MESSAGES = YAML_MESSAGES + JSON_MESSAGES + PATTERN_MESSAGES
