-- Reads, for a batch of keys, K and tenure:o, and beside them what the whole store needs.
local count = #K - GLOBALS
local key = K[GLOBALS + 1]
-- Tables are made as large as a lone key needs them: growing one costs more than making it.
local names, n = { K[1], K[2], K[5], K[8], key, 'tenure:o:' .. key }, 6
for i = 2, count do
  key = K[GLOBALS + i]
  names[n + 1], names[n + 2] = key, 'tenure:o:' .. key
  n = n + 2
end
local got = count == 1 and call('MGET', K[1], K[2], K[5], K[8], key, names[6]) or call('MGET', unpack(names))
local inc, least, rev, tombed = got[1], tonumber(got[2] or 0), tonumber(got[3] or 0), got[4]
-- Whether this is the incarnation that the store knows, and nothing is in quarantine.
local known = inc and least and least > 0 and rev and rev > 0
if known and inc ~= a[1] then
  local run, _, wait, changed = string.match(a[2], INCARNATION)
  local ends = sub(inc, -13)
  known = sub(inc, 1, -14) == run
    and (wait == '0' or (ends <= ms and (changed == '0' or ends ~= '0000000000000')))
end
-- What to write: pairs for MSET, and for the two indexes; the events; what to answer; and what is left to do.
local set, s, index, order, z, told, t = nil, 0, nil, nil, 0, nil, 0
local out, rest, reply = nil, nil, nil
