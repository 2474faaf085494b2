-- Writes what was gathered without functions, and its events as one entry whose id is the first revision.
if z > 0 then
  call('ZADD', INDEX, 'LT', unpack(index))
  call('ZADD', ORDER, unpack(order))
end
if t > 0 then
  local first, last, text, added = nil, rev, nil, nil
  if t < 3 then
    for _ = 1, t do
      local i, digit = 16, byte(last, 16)
      while digit == 57 do
        i = i - 1
        digit = byte(last, i)
      end
      last = sub(last, 1, i - 1) .. char(digit + 1) .. sub(ZEROS, i + 1)
      first = first or last
    end
    text = stamp .. (t == 1 and ' 1\n' or ' 2\n')
  else
    first, last, text = fmt('%d', rev + 1), fmt('%d', rev + t), stamp .. fmt(' %d\n', t)
  end
  if set then
    text = text .. table.concat(told, '\n')
    set[s + 1], set[s + 2] = REV, last
    call('MSET', unpack(set))
  elseif three then
    text = text .. line
    call('MSET', one, two, three, four, REV, last)
  else
    text = text .. line
    call('MSET', one, two, REV, last)
  end
  -- Every thousand revisions the oldest may go.
  if sub(last, 1, 13) ~= sub(rev, 1, 13) then
    added = redis.pcall('XADD', EVENTS, 'MINID', '~', fmt('%d', math.max(rev - 65536, 0)), first .. '-0', 'e', text)
  else
    added = redis.pcall('XADD', EVENTS, first .. '-0', 'e', text)
  end
  if type(added) == 'table' then
    -- The stream is ahead of the counter: somebody touched one of them. Jump, so that watchers see a gap.
    rev = math.max(0 + stamp, tonumber(rev) or 0) + 1048576
    call('SET', REV, fmt('%d', rev + t))
    call('DEL', EVENTS)
    call('XADD', EVENTS, fmt('%d-0', rev + 1), 'e', text)
  end
end
if reply then return reply end
