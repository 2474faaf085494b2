-- Many renewals. KEYS: index, then one per item.
-- ARGV per item: end-of-digest(16) gen(7 bytes) and the ttl(8), if it changes.
-- Answers: the ttl from now on in one number when every item was renewed and has the same. Otherwise per item:
-- the ttl from now on, or -1 when this is not the live reign.
--
-- The first renewal of a reign compares with tenure:o and leaves a mark in the companion, field x:
-- end-of-digest(16) gen(7 bytes) ttl(4 bytes) holder. The next ones compare with that and do not read tenure:o, which is
-- three times as long. Whatever begins a reign or changes its ttl takes the mark away.
local call, a, K = redis.call, ARGV, KEYS
local sub, fmt, find, byte, char = string.sub, string.format, string.find, string.byte, string.char
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local count = #K - 1
local got = call('MGET', unpack(K, 2))
-- Mostly they have one holder and one ttl: what was made of the last mark is kept, and nothing is noted of an item as
-- long as all have the same ttl.
local mark, holder, ttl, ends, same, out, rest = '', nil, nil, nil, nil, nil, nil
for i = 1, count do
  local key, item, value = K[i + 1], a[i], got[i]
  local live, seen = 'tenure:l:' .. key, false
  -- A mark is not longer than 64 bytes: then the companion stays small.
  if value and #value < 38 then seen = redis.pcall('HGET', live, 'x') end
  local fits = seen and seen == item .. mark and value == holder
  if seen and not fits and #item == 23 and type(seen) == 'string' and sub(seen, 1, 23) == item
    and sub(seen, 28) == value
  then
    local b1, b2, b3, b4 = byte(seen, 24, 27)
    fits, mark, holder, ttl = true, sub(seen, 24), value, ((b1 * 256 + b2) * 256 + b3) * 256 + b4
    ends = fmt('%d', now + ttl)
  end
  if fits then
    call('PEXPIREAT', live, ends)
    call('PEXPIREAT', key, ends)
    same = same or ttl
    if out then
      out[i] = ttl
    elseif ttl ~= same then
      out = {}
      for j = 1, i - 1 do out[j] = same end
      out[i] = ttl
    end
  else
    if not out then
      out = {}
      for j = 1, i - 1 do out[j] = same end
    end
    rest, out[i] = rest or {}, -1
    rest[#rest + 1] = i
  end
end
if not out then return same end
if not rest then return out end
-- Then those that have no mark yet, that change their ttl, or that are not live.
local names = {}
for n, i in ipairs(rest) do
  names[n] = 'tenure:o:' .. K[i + 1]
end
local kept = call('MGET', unpack(names))
for n, i in ipairs(rest) do
  local key, item, value, o = K[i + 1], a[i], got[i], kept[n]
  local gen = 0
  for at = 17, 23 do gen = gen * 256 + byte(item, at) end
  if value and o and byte(o) == 104 and find(o, sub(item, 1, 16), 18, true) == 18
    and sub(o, 34, 49) == fmt('%016d', gen) and sub(o, 74, -111) == value
  then
    local live, granted = 'tenure:l:' .. key, 0 + sub(o, 66, 73)
    local new = #item > 23 and 0 + sub(item, 24) or granted
    local at = fmt('%d', now + new)
    if call('PEXPIREAT', live, at) == 1 then
      call('PEXPIREAT', key, at)
      if new ~= granted then
        call('SET', names[n], sub(o, 1, 65) .. fmt('%08d', new) .. sub(o, 74))
        if new < granted then call('ZADD', K[1], 'LT', at, key) end
      end
      if #value < 38 then
        local low = new % 65536
        local span = char(math.floor(new / 16777216), math.floor(new / 65536) % 256, math.floor(low / 256), low % 256)
        redis.pcall('HSET', live, 'x', sub(item, 1, 23) .. span .. value)
      end
      out[i] = new
    end
  end
end
-- All the same after all: in one number.
same = out[1]
for i = 2, count do
  if out[i] ~= same then return out end
end
return same >= 0 and same or out
