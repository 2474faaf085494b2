-- Then those that meet their own reign and nobody parked. What they read and write is gathered over the whole batch.
if handed < count then
  local lives, del, d, whole = { 'tenure:l:' .. K[1] }, {}, 0, false
  for i = 2, count do
    lives[i] = 'tenure:l:' .. K[i]
  end
  if count > 1 then whole = call('EXISTS', unpack(lives)) == count end
  for i = 1, count do
    local key, value, o, item = K[i], got[i * 2 + 3], got[i * 2 + 4], a[HEAD + i]
    if out and out[i] then
      -- Handed over above.
    elseif known and value and o and byte(o, -1) == 45 and #item < 50 and find(o, item, 1, true) == 1
      and #o - #value == 183 and find(o, value, 74, true) == 74
      and (whole or call('EXISTS', lives[i]) == 1)
    then
      local past, gen = 'tenure:h:' .. key, sub(o, 34, 49)
      if call('RPUSH', past, 'r' .. stamp .. sub(o, 26, -111)) > 48 then call('LTRIM', past, '-32', '-1') end
      line, t = 'r' .. key .. ' ' .. value .. ' ' .. gen, t + 1
      o = 'f' .. gen .. sub(o, -110, -98) .. sub(o, 28, 33) .. sub(o, -97, -8) .. '-'
      del[d + 1], del[d + 2], d = key, lives[i], d + 2
      if set then
        set[s + 1], set[s + 2] = names[i * 2 + 4], o
        told[#told + 1], out[i], s = line, 'r', s + 2
      else
        two = o
      end
    else
      rest = rest or {}
      rest[#rest + 1] = i
    end
  end
  if d > 0 then call('DEL', unpack(del)) end
  if not rest then reply = handed > 0 and out or 'r' end
elseif out then
  reply = out
end
