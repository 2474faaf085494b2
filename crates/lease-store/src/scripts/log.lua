-- Reads a log. KEYS: tenure:log, tenure:n. ARGV: after, limit. Answers: {number of the first, entry...}.
local call = redis.call
local last, kept = tonumber(call('GET', KEYS[2]) or 0), call('LLEN', KEYS[1])
local gone = last - kept
local skip = math.max(ARGV[1] - gone, 0)
local entries = call('LRANGE', KEYS[1], skip, skip + ARGV[2] - 1)
table.insert(entries, 1, string.format('%.0f', gone + skip + 1))
return entries
