-- Which keys time may take away. KEYS: any. Answers per key: 0 when it stays, 1 when it has a TTL or is gone.
local out = {}
for i = 1, #KEYS do
  out[i] = redis.call('PTTL', KEYS[i]) == -1 and 0 or 1
end
return out
