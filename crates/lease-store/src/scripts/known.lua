-- Reads, for a batch of keys, K and tenure:o, and beside them what the whole store needs.
local count, key, names, got = #K, K[1], nil, nil
-- What to write: pairs for MSET, and for the two indexes; the events; what to answer; and what is left to do. A lone key
-- needs no tables for it but `one` to `four` and `line`.
local set, s, index, order, z, told, t = nil, 0, nil, nil, 0, nil, 0
local out, rest, reply, handed = nil, nil, nil, 0
local one, two, three, four, line = 'tenure:o:' .. key, nil, nil, nil, nil
if count == 1 then
  got = call('MGET', INC, FLOOR, REV, TOMBED, key, one)
else
  names, set, told, out = { INC, FLOOR, REV, TOMBED }, {}, {}, {}
  for i = 1, count do
    names[i * 2 + 3], names[i * 2 + 4] = K[i], 'tenure:o:' .. K[i]
  end
  got = call('MGET', unpack(names))
end
local inc, least, rev, tombed = got[1], got[2], got[3], got[4]
-- Whether this is the incarnation that the store knows, and nothing is in quarantine. Floor and revision are texts of 16
-- digits, as they have been since 2001 and will be for as long as they can grow.
local known = inc and least and rev and #least == 16 and byte(least) < 58 and #rev == 16 and byte(rev) < 57
if known and find(a[1], inc, 1, true) ~= 1 then
  local run, _, wait, changed = string.match(a[1], INCARNATION)
  local ends = sub(inc, -13)
  known = sub(inc, 1, -14) == run
    and (wait == '0' or (ends <= ms and (changed == '0' or ends ~= '0000000000000')))
end
