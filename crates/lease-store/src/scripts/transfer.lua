-- Hands a key to a parked successor. ARGV: 'h' digest generation as one text, successor.
-- Answers: n not held, s no successor, or 'tgen ttl'.
incarnate()
spell(K[1])
local state, _, o, last = settle()
local answer = 'n'
if state == 'h' and sub(o, 1, 49) == a[HEAD + 1] then
  local function over()
    close(o, 't')
  end
  local parked, gen = hand_on(last, spend(sub(o, 2, 33), o), nil, a[HEAD + 2], over)
  if parked then
    answer = 't' .. gen .. ' ' .. sub(parked, 49, 56)
  else
    answer = 's'
  end
end
tell(happened)
return answer
