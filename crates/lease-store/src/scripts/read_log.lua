-- Reads entries of a log.
--
--@libs
--@keys entries count
--@args after limit
--@reply entries first entry...
--
-- `count` is the key that counts all entries ever written. `after` is the number of the last entry already read, and
-- `first` the number of the first entry of the reply.
local last, kept = tonumber(redis.call('GET', KEYS[2]) or 0), redis.call('LLEN', KEYS[1])
local dropped = last - kept
local skip = math.max(after - dropped, 0)
local reply = { 'entries', string.format('%.0f', dropped + skip + 1) }
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], skip, skip + limit - 1)) do
  reply[#reply + 1] = entry
end
return reply
