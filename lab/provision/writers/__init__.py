"""Writers of media: command texts, parsers of answers, and their sequence."""
