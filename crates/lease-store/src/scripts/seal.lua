-- Writes what was gathered without functions, and its events as one entry whose id is the first revision.
if z > 0 then
  call('ZADD', K[3], 'LT', unpack(index))
  call('ZADD', K[4], unpack(order))
end
if t > 0 then
  local last, text, added = fmt('%d', rev + t), stamp .. fmt(' %d\n', t) .. told[1], nil
  if told[2] then
    told[1] = text
    text = table.concat(told, '\n')
  end
  if s == 4 then
    call('MSET', set[1], set[2], set[3], set[4], K[5], last)
  else
    set[s + 1], set[s + 2] = K[5], last
    call('MSET', unpack(set))
  end
  local id = t == 1 and last .. '-0' or fmt('%d-0', rev + 1)
  if rev % 1024 + t >= 1024 then
    added = redis.pcall('XADD', K[6], 'MINID', '~', fmt('%d', math.max(rev - 65536, 0)), id, 'e', text)
  else
    added = redis.pcall('XADD', K[6], id, 'e', text)
  end
  if type(added) == 'table' then
    -- The stream is ahead of the counter: somebody touched one of them. Jump, so that watchers see a gap.
    rev = math.max(0 + stamp, rev) + 1048576
    call('SET', K[5], fmt('%d', rev + t))
    call('DEL', K[6])
    call('XADD', K[6], fmt('%d-0', rev + 1), 'e', text)
  end
end
if reply then return reply end
