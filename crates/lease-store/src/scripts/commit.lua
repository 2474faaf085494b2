-- All operations on records and logs, or none, under a fence if there is one.
-- KEYS: rindex; of a fence K, tenure:l, tenure:g, tenure:o, tenure:m; per operation
-- K, tenure:v, tenure:l, tenure:o, or of a log tenure:log, tenure:n, twice.
-- ARGV after the head: fence (s strict, m monotonic, or ''), 'h' digest generation as one text; per operation
-- kind (p put, a if absent, r if revision, d delete, l append), value, ttl or '', revision or longest log.
-- Answers: {w, revision}, {f, current}, {c, index, found}, {k, index}.
incarnate()
local mode, proof = a[HEAD + 1], a[HEAD + 2]
local b, p = 1, HEAD + 2
local index = K[b]

if mode ~= '' then
  if mode == 's' then
    local got = call('MGET', K[b + 1], K[b + 4])
    local held = got[1] and got[2] and sub(got[2], 1, 49) == proof and got[1] == holder_of(got[2])
    if not held or call('EXISTS', K[b + 2]) == 0 then return { 'f', call('GET', K[b + 3]) or '' } end
  else
    local mark, gen, writer = call('GET', K[b + 5]), sub(proof, 34, 49), sub(proof, 2, 17)
    local before = mark and tonumber(sub(mark, 1, 16)) or 0
    if before > tonumber(gen) or (before == tonumber(gen) and sub(mark, 17) ~= writer) then
      return { 'f', sub(mark, 1, 16) }
    end
  end
  b = b + 5
end

local count = (#K - b) / 4
-- The revision of what is there: none, or 0 for what something else wrote.
local function found(key, value, mark)
  if not value then return call('EXISTS', key) == 1 and '0' or nil end
  local rev, sum = string.match(mark or '', '^(%d+) (%x+)$')
  return sum == redis.sha1hex(value) and rev or '0'
end

for i = 1, count do
  local x, y = b + (i - 1) * 4, p + (i - 1) * 4
  local kind = a[y + 1]
  if kind ~= 'l' then
    local got = call('MGET', K[x + 1], K[x + 2], K[x + 4])
    local value, o = got[1], got[3]
    local was = o and sub(o, 1, 1)
    if value and ((was == 'h' and value == holder_of(o) and call('EXISTS', K[x + 3]) == 1)
      or (was == 'r' and reserved(o, value)))
    then
      return { 'k', i - 1 }
    end
    if was == 'd' and tonumber(sub(o, 2, 17)) > now then return { 'k', i - 1 } end
    if kind == 'd' then
      if value or call('EXISTS', K[x + 1]) == 1 then event('d', K[x + 1], '-', '0') end
    else
      event('p', K[x + 1], '-', '0')
    end
    if kind == 'a' or kind == 'r' then
      local there = found(K[x + 1], value, got[2])
      if (kind == 'a' and there) or (kind == 'r' and there ~= a[y + 4]) then
        return { 'c', i - 1, there or '' }
      end
    end
  end
end

-- A strict write leaves its mark, too: an older monotonic one must not land after it. It never takes a higher one back.
if mode ~= '' then
  local mark = sub(proof, 34, 49) .. sub(proof, 2, 17)
  local before = call('GET', K[6])
  if before ~= mark and (not before or mode == 'm' or sub(before, 1, 16) <= sub(mark, 1, 16)) then
    call('SET', K[6], mark)
  end
end
local steps = math.max(happened, 1)
local revision = fmt('%d', tell(steps) + steps - 1)
for i = 1, count do
  local x, y = b + (i - 1) * 4, p + (i - 1) * 4
  local kind, value, ttl = a[y + 1], a[y + 2], a[y + 3]
  if kind == 'l' then
    call('INCR', K[x + 2])
    call('RPUSH', K[x + 1], value)
    call('LTRIM', K[x + 1], -a[y + 4], -1)
  elseif kind == 'd' then
    call('DEL', K[x + 1], K[x + 2])
    call('ZREM', index, K[x + 1])
  else
    local mark = revision .. ' ' .. redis.sha1hex(value)
    if ttl == '' then
      call('MSET', K[x + 1], value, K[x + 2], mark)
    else
      call('SET', K[x + 1], value, 'PXAT', fmt('%d', now + ttl))
      call('SET', K[x + 2], mark, 'PXAT', fmt('%d', now + ttl))
    end
    call('ZADD', index, 0, K[x + 1])
  end
end
return { 'w', revision }
