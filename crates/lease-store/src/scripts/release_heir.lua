-- Many independent releases of different keys.
-- ARGV per release: 'h' digest(32) generation(16) or nothing. What is rarer has zeros when it has no generation, and
-- then how (r release, a release again after a lost reply, q only leave the queue), length(3) heir, parked claim.
-- A claim of the instance that asks learns from the answer that it was granted.
-- Answers: r when every release released and nobody was parked. Otherwise per release: n not held, r released, and
-- behind it the id(16) and the generation(16) of the parked claim that was granted.
--
-- First those that meet their own reign with somebody parked. The first claim that is alive gets the key; see reign.
for i = 1, count do
  local item, value, o = a[HEAD + i], got[i * 2 + 3], got[i * 2 + 4]
  if known and value and o and byte(o, -1) == 119 and #item < 50 and find(o, item, 1, true) == 1
    and #o - #value == 183 and find(o, value, 74, true) == 74
  then
    local key, gen, spent, granted = K[i], sub(o, 34, 49), sub(o, 28, 33) .. sub(o, -97, -8), nil
    local queue, live = 'tenure:w:' .. key, 'tenure:l:' .. key
    local after, at = gen < least and least or gen, 16
    local digit = after < LAST and byte(after, 16)
    while digit == 57 do
      at = at - 1
      digit = byte(after, at)
    end
    while digit and not granted do
      local m = call('LPOP', queue)
      if not m then
        -- Nobody is, and it is released like any other below.
        got[i * 2 + 4] = sub(o, 1, -2) .. '-'
        break
      end
      if sub(m, 57, 72) >= '000' .. ms and not find(spent, sub(m, 43, 48), 1, true)
        and not (tombed and tonumber(call('ZSCORE', TOMBS, sub(m, 17, 24) .. key) or 0) > 0 + ms)
      then
        local hundreds, tens, ones = byte(m, 89, 91)
        local last = 91 + hundreds * 100 + tens * 10 + ones - 5328
        local digest, ttl, holder, instance = sub(m, 17, 48), sub(m, 49, 56), sub(m, 92, last), sub(m, 73, 88)
        local new = sub(after, 1, at - 1) .. char(digit + 1) .. sub(ZEROS, at + 1)
        if call('HSET', live, 'g', new, 't', digest, 's', stamp, 'm', sub(m, last + 1), 'x', '') > 2 then
          -- There was no companion: the reign was over before. The claim keeps its place.
          call('DEL', live)
          call('LPUSH', queue, m)
          break
        end
        granted = sub(m, 1, 16) .. new
        if instance == sub(a[1], -16) or call('PUBLISH', 'tenure:c:' .. instance, granted) > 0 then
          local past, from = 'tenure:h:' .. key, 1
          if call('RPUSH', past, 'r' .. stamp .. sub(o, 26, -111)) > 48 then call('LTRIM', past, '-32', '-1') end
          while byte(ttl, from) == 48 do
            from = from + 1
          end
          local px, place = sub(ttl, from), sub(o, -110, -98)
          call('SET', key, holder, 'PX', px)
          call('PEXPIRE', live, px)
          -- How long the place in the index is ahead, and longer than the ttl or not. What is not a digit's value cancels out.
          local ahead, long = 0, 0
          for d = 5, 13 do
            ahead = ahead * 10 + byte(place, d) - byte(ms, d)
          end
          for d = 1, 8 do
            long = long * 10 + byte(ttl, d) - 48
          end
          if ahead > long or sub(place, 1, 4) ~= sub(ms, 1, 4) then
            local ends = fmt('%013d', ms + ttl)
            index, order = index or {}, order or {}
            index[z + 1], index[z + 2], order[z + 1], order[z + 2] = ends, key, '0', key
            z = z + 2
            if ends < place then place = ends end
          end
          line = 'r' .. key .. ' ' .. value .. ' ' .. gen .. '\n+' .. key .. ' ' .. holder .. ' ' .. new
          o = 'h' .. digest .. new .. stamp .. ttl .. holder .. place .. spent .. 'w'
          if set then
            set[s + 1], set[s + 2], set[s + 3], set[s + 4] = names[i * 2 + 4], o, 'tenure:g:' .. key, new
            told[#told + 1], out[i], s = line, 'r' .. granted, s + 4
          else
            two, three, four, reply = o, 'tenure:g:' .. key, new, { 'r' .. granted }
          end
          t, handed = t + 2, handed + 1
        else
          granted = nil
        end
      end
    end
  end
end
