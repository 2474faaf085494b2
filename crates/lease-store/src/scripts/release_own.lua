-- Many independent releases of different keys.
-- ARGV per release: 'h' digest(32) generation(16) or nothing. What is rarer has zeros when it has no generation, and
-- then how (r release, a release again after a lost reply, q only leave the queue), length(3) heir, parked claim.
-- Last of all the instance(16) that asks: a claim of its own learns from the answer that it was granted.
-- Answers: r when every release released and nobody was parked. Otherwise per release: n not held, r released, and
-- behind it the id(16) and the generation(16) of the parked claim that was granted.
--
-- First those that meet their own reign, without an heir. What they read and write is gathered over the whole batch.
local lives, del, d, handed, whole = { 'tenure:l:' .. K[GLOBALS + 1] }, nil, 0, false, nil
for i = 2, count do
  lives[i] = 'tenure:l:' .. K[GLOBALS + i]
end
if count > 1 then whole = call('EXISTS', unpack(lives)) == count end
for i = 1, count do
  local key, value, o, item = names[i * 2 + 3], got[i * 2 + 3], got[i * 2 + 4], a[HEAD + i]
  local mine = known and value and o and #item < 50 and find(o, item, 1, true) == 1 and #o - #value == 183
    and find(o, value, 74, true) == 74
  local gen = mine and sub(o, 34, 49)
  local heir, holder, digest, ttl, plain, padded, spent
  if mine and byte(o, -1) == 119 then
    -- Somebody may be parked. The first one that is alive gets the key; see reign.
    local after = tonumber(gen)
    after = (after < least and least or after) + 1
    if after >= 9007199254740992 then mine = false end
    padded, spent = fmt('%016d', after), sub(o, 28, 33) .. sub(o, -97, -8)
    plain = after < 1000000000000000 and fmt('%d', after) or padded
    local queue = 'tenure:w:' .. key
    while mine and not heir do
      local first = call('ZPOPMIN', queue)
      local m = first[1]
      if not m then break end
      if sub(m, 57, 72) >= '000' .. ms and not find(spent, sub(m, 43, 48), 1, true)
        and not (tombed and tonumber(call('ZSCORE', K[7], sub(m, 17, 24) .. key) or 0) > 0 + ms)
      then
        local last = 91 + sub(m, 89, 91)
        digest, ttl, holder = sub(m, 17, 48), sub(m, 49, 56), sub(m, 92, last)
        local live, instance = lives[i], sub(m, 73, 88)
        if call('HSET', live, 'g', plain, 't', digest, 's', stamp, 'm', sub(m, last + 1), 'x', '') > 2 then
          -- There was no companion: the reign was over before. The claim keeps its place.
          call('DEL', live)
          call('ZADD', queue, first[2], m)
          mine = false
        elseif instance == a[HEAD + count + 1]
          or call('PUBLISH', 'tenure:c:' .. instance, sub(m, 1, 16) .. padded) > 0
        then
          heir = m
        end
      end
    end
  end
  if mine and not heir and not whole then mine = call('EXISTS', lives[i]) == 1 end
  if mine then
    local past, line, answer = 'tenure:h:' .. key, 'r' .. key .. ' ' .. value .. ' ' .. gen, 'r'
    if call('RPUSH', past, 'r' .. stamp .. sub(o, 26, -111)) > 48 then call('LTRIM', past, -32, -1) end
    local at = sub(o, -110, -98)
    if heir then
      local ends = fmt('%013d', ms + ttl)
      call('SET', key, holder, 'PXAT', ends)
      call('PEXPIREAT', lives[i], ends)
      if at > ends then
        index, order = index or {}, order or {}
        index[z + 1], index[z + 2], order[z + 1], order[z + 2] = ends, key, '0', key
        at, z = ends, z + 2
      end
      o = 'h' .. digest .. padded .. stamp .. ttl .. holder .. at .. spent .. 'w'
      if set then
        set[s + 1], set[s + 2], set[s + 3], set[s + 4] = names[i * 2 + 4], o, 'tenure:g:' .. key, plain
      else
        set = { names[i * 2 + 4], o, 'tenure:g:' .. key, plain }
      end
      line, s, t = line .. '\n+' .. key .. ' ' .. holder .. ' ' .. padded, s + 4, t + 1
      answer, handed = 'r' .. sub(heir, 1, 16) .. padded, true
    else
      o = 'f' .. gen .. at .. sub(o, 28, 33) .. sub(o, -97, -8) .. '-'
      if set then
        set[s + 1], set[s + 2] = names[i * 2 + 4], o
      else
        set = { names[i * 2 + 4], o, nil, nil }
      end
      if del then
        del[d + 1], del[d + 2] = key, lives[i]
      else
        del = { key, lives[i] }
      end
      d, s = d + 2, s + 2
    end
    t = t + 1
    if told then
      told[#told + 1], out[i] = line, answer
    else
      told, out = { line }, i == 1 and { answer } or { [i] = answer }
    end
  else
    rest = rest or {}
    rest[#rest + 1] = i
  end
end
if d > 0 then call('DEL', unpack(del)) end
if not rest then reply = handed and out or 'r' end
