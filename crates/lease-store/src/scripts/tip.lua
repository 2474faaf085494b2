-- The last revision, as of this incarnation. ARGV 2: 1 if an engine is opened. What it finds may have been minted
-- elsewhere since this server's floor was: then the floor is raised to what it would be now.
incarnate()
local since = time[1] * 1048576 + time[2]
if a[HEAD + 1] == '1' and floor < since then call('SET', FLOOR, fmt('%d', since)) end
local rev = call('GET', REV)
if not rev then
  rev = fmt('%d', us)
  call('SET', REV, rev)
end
return rev
