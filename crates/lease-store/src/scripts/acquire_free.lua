-- Many independent claims on different keys.
-- ARGV per claim: digest(32), and what is rarer: generation to replace or zeros (16), mode (- at once, w wait,
-- l leave), length(4) meta, parked claim; then ttl(8) holder.
-- Answers: the generations(16) in one text when every claim was granted at once. Otherwise per claim:
-- '+gen' granted, '=gen ttl holder' held already, '!word' refused, '-reason last remaining position holder' busy.
--
-- First those that meet a key which is plainly free. What they read and write is gathered over the whole batch.
local same, until_then = nil, nil
for i = 1, count do
  local key, digest, want, o = K[i], a[HEAD + i * 2 - 1], a[HEAD + i * 2], got[i * 2 + 4]
  local gen, tail, ttl, ends = nil, nil, nil, nil
  if known and not got[i * 2 + 3] and #digest == 32
    and not (tombed and call('ZSCORE', TOMBS, sub(digest, 1, 8) .. key))
  then
    if not o then
      gen, tail = call('GET', 'tenure:g:' .. key) or ZEROS, BLANK .. '-'
      if #gen ~= 16 or find(gen, '%D') then gen = nil end
    elseif byte(o) == 102 and byte(o, -1) == 45 and not find(o, sub(digest, 27), 31, true) then
      gen, tail = sub(o, 2, 17), sub(o, 18)
    end
  end
  if gen then
    if gen < least then gen = least end
    ttl = sub(want, 1, 8)
    if ttl ~= same then
      same, until_then = ttl, fmt('%013d', ms + ttl)
    end
    ends = until_then
  end
  local holder = sub(want, 9)
  if gen and gen < LAST and call('SET', key, holder, 'PXAT', ends, 'NX') then
    local live, at, digit = 'tenure:l:' .. key, 16, byte(gen, 16)
    while digit == 57 do
      at = at - 1
      digit = byte(gen, at)
    end
    gen = sub(gen, 1, at - 1) .. char(digit + 1) .. sub(ZEROS, at + 1)
    call('HSET', live, 'g', gen, 't', digest, 's', stamp, 'x', '')
    call('PEXPIREAT', live, ends)
    if sub(tail, 1, 13) > ends then
      index, order = index or {}, order or {}
      index[z + 1], index[z + 2], order[z + 1], order[z + 2] = ends, key, '0', key
      tail, z = ends .. sub(tail, 14), z + 2
    end
    o = 'h' .. digest .. gen .. stamp .. want .. tail
    line, t = '+' .. key .. ' ' .. holder .. ' ' .. gen, t + 1
    if set then
      set[s + 1], set[s + 2], set[s + 3], set[s + 4] = names[i * 2 + 4], o, 'tenure:g:' .. key, gen
      told[t], out[i], s = line, gen, s + 4
    else
      two, three, four, reply = o, 'tenure:g:' .. key, gen, gen
    end
  else
    rest = rest or {}
    rest[#rest + 1] = i
  end
end
if out and not rest then reply = table.concat(out) end
