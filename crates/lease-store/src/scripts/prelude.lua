-- The key that the functions below work on, with its companions, and the events.
local k = {}
local us, now = 0 + stamp, 0 + ms
local lines, happened = {}, 0

-- Names that key.
local function spell(key)
  k[1], k[2], k[3] = key, 'tenure:l:' .. key, 'tenure:g:' .. key
  k[4], k[5], k[6] = 'tenure:w:' .. key, 'tenure:o:' .. key, 'tenure:h:' .. key
end

-- Letters: + granted, r released, t transferred, e expired, v revoked, s superseded, w wiped, g gone,
-- p written, d deleted.
local function event(letter, key, holder, gen)
  happened = happened + 1
  lines[happened] = letter .. key .. ' ' .. holder .. ' ' .. gen
end

-- Writes the events of this call as one entry whose id is the first revision of `count`.
local function tell(count)
  if count == 0 then return 0 end
  local last = call('INCRBY', REV, count)
  if last <= count then
    last = us + count
    call('SET', REV, fmt('%d', last))
  end
  local first, text = last - count + 1, stamp .. fmt(' %d\n', count) .. table.concat(lines, '\n')
  local function add()
    return redis.pcall('XADD', EVENTS, 'MINID', '~', fmt('%d', math.max(first - 65536, 0)), fmt('%d-0', first), 'e', text)
  end
  local added = add()
  if type(added) == 'table' and added.err then
    -- The stream is ahead of the counter: somebody touched one of them. Jump, so that watchers see a gap.
    first = math.max(us, first) + 1048576
    call('SET', REV, fmt('%d', first + count - 1))
    call('DEL', EVENTS)
    add()
  end
  return first
end

-- What `o` keeps over every change: its place in the index and the spent tokens.
local function kept(o)
  return o and sub(o, -110, -2) or BLANK
end

local function spent_of(o)
  return o and sub(o, -97, -2) or ''
end

-- `o`'s spent tokens and one more.
local function spend(digest, o)
  return sub(digest, 27) .. sub(o, -97, -8)
end

local function is_spent(digest, spent)
  return find(spent, sub(digest, 27, 32), 1, true)
end

local function holder_of(o)
  return sub(o, 74, -111)
end

-- Whether somebody is parked, as the last letter of `o` says it.
local function flag()
  return call('EXISTS', k[4]) == 1 and 'w' or '-'
end

-- What `o` becomes when its reign is over.
local function freed(o, spent)
  return 'f' .. sub(o, 34, 49) .. sub(o, -110, -98) .. spent .. flag()
end

-- Whether `o` keeps the key for the heir that K names. K's own expiry decides: it is judged by the moment this
-- call began, and TIME is a little later.
local function reserved(o, value)
  return sub(o, 1, 1) == 'r' and tonumber(sub(o, 2, 17)) > now - 1000 and value == sub(o, 18, -111)
end
