-- Then the releases that met anything else.
incarnate()

local function reserve(heir, o, spent)
  local ends = fmt('%013d', now + 2000)
  call('SET', k[1], heir, 'PXAT', ends)
  call('SET', k[5], 'r' .. fmt('%016d', ends) .. heir .. sub(o, -110, -98) .. spent .. flag())
  note(k[1], ends)
end

local function give_back(o, last, heir)
  local spent = spend(sub(o, 2, 33), o)
  local function over()
    close(o, 'r')
  end
  local to = heir ~= '' and heir or nil
  local parked, gen = hand_on(last, spent, nil, to, over)
  if parked then return 'r' .. sub(parked, 1, 16) .. gen end
  over()
  call('DEL', k[1], k[2])
  if to then
    reserve(heir, o, spent)
  else
    call('SET', k[5], freed(o, spent))
  end
  return 'r'
end

local function decide(item)
  local digest, gen, how = sub(item, 2, 33), sub(item, 34, 49), sub(item, 50, 50)
  local length = tonumber(sub(item, 51, 53)) or 0
  local heir, parked = sub(item, 54, 53 + length), sub(item, 54 + length)
  if parked ~= '' then call('LREM', k[4], 1, parked) end
  if how == 'q' then return 'n' end
  local state, _, o, last = settle()
  local mine = state == 'h' and sub(o, 2, 33) == digest
  if mine and (gen == '' or gen == ZEROS or sub(o, 34, 49) == gen) then return give_back(o, last, heir) end
  if is_spent(digest, spent_of(o)) then return how == 'a' and 'r' or 'n' end
  if not mine then
    call('ZREMRANGEBYSCORE', TOMBS, '-inf', ms)
    call('ZADD', TOMBS, fmt('%d', now + 60000), sub(digest, 1, 8) .. k[1])
    call('SET', TOMBED, '1', 'PX', 61000)
  end
  return 'n'
end

out = out or {}
for _, i in ipairs(rest) do
  spell(K[i])
  out[i] = decide(a[HEAD + i])
end
tell(happened)
return out
