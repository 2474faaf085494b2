-- Hands a key to a parked successor. ARGV: 'h' generation digest as one text, successor.
-- Answers: n not held, s no successor, or 'tgen ttl'.
incarnate()
local b = spell(KEYS[GLOBALS + 1])
local state, _, o, last = settle(b, nil)
local answer = 'n'
if state == 'h' and sub(o, 1, 49) == a[HEAD + 1] then
  local function over()
    close(b, o, 't')
    return spend(sub(o, 18, 49), spent_of(o))
  end
  local parked = hand_on(b, last, spend(sub(o, 18, 49), spent_of(o)), nil, a[HEAD + 2], over)
  if parked then
    answer = 't' .. sub(call('GET', k[b + 5]), 2, 17) .. ' ' .. sub(parked, 49, 56)
  else
    answer = 's'
  end
end
tell(happened)
return answer
