-- The last revision, as of this incarnation.
incarnate()
local rev = call('GET', REV)
if not rev then
  rev = fmt('%d', us)
  call('SET', REV, rev)
end
return rev
