-- How `cargo xtask test` checks the scripts, as they are sent to the server.
std = "lua51"
read_globals = { "redis", "KEYS", "ARGV" }
max_line_length = 120
