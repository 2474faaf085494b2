-- Many independent claims on different keys.
-- ARGV per claim: digest(32), and what is rarer: generation to replace or zeros (16), mode (- at once, w wait,
-- l leave), length(4) meta, parked claim; then ttl(8) holder.
-- Answers: the generations(16) in one text when every claim was granted at once. Otherwise per claim:
-- '+gen' granted, '=gen ttl holder' held already, '!word' refused, '-reason last remaining position holder' busy.
--
-- First those that meet a key which is plainly free. What they read and write is gathered over the whole batch.
local same, until_then = nil, nil
for i = 1, count do
  local key, digest, want, o = names[i * 2 + 3], a[HEAD + i * 2 - 1], a[HEAD + i * 2], got[i * 2 + 4]
  local gen, tail, ttl, ends = nil, nil, nil, nil
  if known and not got[i * 2 + 3] and #digest == 32
    and not (tombed and call('ZSCORE', K[7], sub(digest, 1, 8) .. key))
  then
    if not o then
      gen, tail = tonumber(call('GET', 'tenure:g:' .. key) or 0), BLANK .. '-'
    elseif byte(o) == 102 and byte(o, -1) == 45 and not find(o, sub(digest, 27), 31, true) then
      gen, tail = tonumber(sub(o, 2, 17)), sub(o, 18)
    end
  end
  if gen then
    gen = (gen < least and least or gen) + 1
    ttl = sub(want, 1, 8)
    if ttl ~= same then
      same, until_then = ttl, fmt('%013d', ms + ttl)
    end
    ends = until_then
  end
  local holder = sub(want, 9)
  if gen and gen < 9007199254740992 and call('SET', key, holder, 'PXAT', ends, 'NX') then
    local live, padded = 'tenure:l:' .. key, fmt('%016d', gen)
    local plain = gen < 1000000000000000 and fmt('%d', gen) or padded
    call('HSET', live, 'g', plain, 't', digest, 's', stamp, 'x', '')
    call('PEXPIREAT', live, ends)
    if sub(tail, 1, 13) > ends then
      index, order = index or {}, order or {}
      index[z + 1], index[z + 2], order[z + 1], order[z + 2] = ends, key, '0', key
      tail, z = ends .. sub(tail, 14), z + 2
    end
    local line = '+' .. key .. ' ' .. holder .. ' ' .. padded
    o = 'h' .. digest .. padded .. stamp .. want .. tail
    if set then
      set[s + 1], set[s + 2], set[s + 3], set[s + 4] = 'tenure:g:' .. key, plain, names[i * 2 + 4], o
      told[t + 1], out[i] = line, padded
    else
      set, told = { 'tenure:g:' .. key, plain, names[i * 2 + 4], o }, { line }
      out = i == 1 and { padded } or { [i] = padded }
    end
    s, t = s + 4, t + 1
  else
    rest = rest or {}
    rest[#rest + 1] = i
  end
end
if not rest then reply = count > 1 and table.concat(out) or out[1] end
