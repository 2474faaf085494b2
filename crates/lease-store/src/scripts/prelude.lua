-- Common to all scripts: the time of this call, the packed state of a key, and the events.
--
-- KEYS 1-7 are tenure:inc, floor, index, keys, rev, events, tombs; then one per lease key. A lease key's
-- companions are its name with a prefix: spelling them here is half the cost of sending them.
-- ARGV 1-4 describe the server's incarnation.
--
-- tenure:o holds what a key is doing besides what the frozen layout shows, and never expires:
--   h gen(16) digest(32) ttl(8) since(16) length(3) holder spent...   held
--   f gen(16) spent...                                                free; the last generation
--   d until(16) spent...                                              nobody may have it yet
--   r until(16) length(3) heir spent...                               kept for an heir
-- where spent is the first 8 bytes of the digests of the last 32 spent tokens, newest first. Long strings are
-- costly: this Lua hashes every byte of every string it makes.
local call, a = redis.call, ARGV
local k = { KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7] }
local sub, fmt, find = string.sub, string.format, string.find
local GLOBALS, HEAD = 7, 4
local time = call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)
local stamp = fmt('%016d', us)
local out, events, happened = {}, {}, 0

local WORD = {
  r = 'released', t = 'transferred', e = 'expired', v = 'revoked',
  s = 'superseded', w = 'wiped', g = 'gone',
}

-- Names the key that the functions below work on.
local function spell(key)
  k[8], k[9], k[10] = key, 'tenure:l:' .. key, 'tenure:g:' .. key
  k[11], k[12], k[13] = 'tenure:w:' .. key, 'tenure:o:' .. key, 'tenure:h:' .. key
  return GLOBALS
end

local function event(verb, key, holder, gen)
  happened = happened + 1
  events[happened] = verb .. ' ' .. key .. ' ' .. holder .. ' ' .. gen
end

-- Writes the events of this call as one entry whose id is the first revision of `count`.
local function tell(count)
  if count == 0 then return 0 end
  local last = call('INCRBY', k[5], count)
  if last <= count then
    last = us + count
    call('SET', k[5], fmt('%d', last))
  end
  local first, text = last - count + 1, table.concat(events, '\n')
  local function add()
    return redis.pcall('XADD', k[6], 'MINID', '~', fmt('%d', math.max(first - 65536, 0)),
      fmt('%d-0', first), 'a', stamp, 'n', count, 'e', text)
  end
  local added = add()
  if type(added) == 'table' and added.err then
    -- The stream is ahead of the counter: somebody touched one of them. Jump, so that watchers see a gap.
    first = math.max(us, first) + 1048576
    call('SET', k[5], fmt('%d', first + count - 1))
    call('DEL', k[6])
    add()
  end
  return first
end

local function spent_of(o)
  if not o then return '' end
  local state = sub(o, 1, 1)
  if state == 'h' then return sub(o, 77 + sub(o, 74, 76)) end
  if state == 'r' then return sub(o, 21 + sub(o, 18, 20)) end
  return sub(o, 18)
end

local function spend(digest, spent)
  return sub(digest, 1, 8) .. sub(spent, 1, 248)
end

local function is_spent(digest, spent)
  return find(spent, sub(digest, 1, 8), 1, true)
end

local function holder_of(o)
  return sub(o, 77, 76 + sub(o, 74, 76))
end

-- Whether `o` keeps the key for the heir that K names. K's own expiry decides: it is judged by the moment this
-- call began, and TIME is a little later.
local function reserved(o, value)
  return sub(o, 1, 1) == 'r' and tonumber(sub(o, 2, 17)) > now - 1000
    and value == sub(o, 21, 20 + sub(o, 18, 20))
end
