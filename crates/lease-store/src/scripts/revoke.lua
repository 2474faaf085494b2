-- Ends a reign by force. ARGV: generation, delay in ms or ''.
-- Answers: 'vdelay', or 'scurrent' with the live generation or nothing.
incarnate()
spell(K[1])
local state, _, o, last = settle()
local answer = 's'
if state == 'h' and sub(o, 34, 49) == a[HEAD + 1] then
  local delay = a[HEAD + 2] ~= '' and tonumber(a[HEAD + 2]) or math.max(call('PTTL', k[1]), 0)
  local spent = spend(sub(o, 2, 33), o)
  close(o, 'v')
  call('DEL', k[1], k[2])
  if delay > 0 then
    call('SET', k[5], 'd' .. fmt('%016d', now + delay) .. sub(o, -110, -98) .. spent .. flag())
    note(k[1], fmt('%d', now + delay))
  else
    call('SET', k[5], freed(o, spent))
    hand_on(last, spent)
  end
  answer = 'v' .. fmt('%d', delay)
elseif state == 'h' then
  answer = 's' .. sub(o, 34, 49)
end
tell(happened)
return answer
