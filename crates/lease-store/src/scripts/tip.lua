-- The last revision, as of this incarnation.
incarnate()
local rev = call('GET', k[5])
if not rev then
  rev = fmt('%d', us)
  call('SET', k[5], rev)
end
return rev
