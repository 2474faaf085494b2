-- Hands a key to a parked successor. ARGV: 'h' digest generation as one text, successor.
-- Answers: n not held, s no successor, or 'tgen ttl'.
incarnate()
local b = spell(K[GLOBALS + 1])
local state, _, o, last = settle(b, nil)
local answer = 'n'
if state == 'h' and sub(o, 1, 49) == a[HEAD + 1] then
  local function over()
    close(b, o, 't')
  end
  local parked, gen = hand_on(b, last, spend(sub(o, 2, 33), o), nil, a[HEAD + 2], over)
  if parked then
    answer = 't' .. gen .. ' ' .. sub(parked, 49, 56)
  else
    answer = 's'
  end
end
tell(happened)
return answer
