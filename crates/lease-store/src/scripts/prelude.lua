-- Common to all scripts: the time of this call, the packed state of a key, and the events.
--
-- KEYS 1-7 are tenure:inc, floor, index, keys, rev, events, tombs; then, per lease key,
-- K, tenure:l, tenure:g, tenure:w, tenure:o, tenure:h. ARGV 1-4 describe the server's incarnation.
--
-- tenure:o holds what a key is doing besides what the frozen layout shows, and never expires:
--   h gen(16) digest(32) ttl(8) since(16) length(3) holder spent...   held
--   d until(16) spent...                                              nobody may have it yet
--   r until(16) length(3) heir spent...                               kept for an heir
--   f spent...                                                        free
-- where spent is the first halves of the digests of the last 32 spent tokens, newest first.
-- Numbers beyond 2^46 are formatted, never concatenated: Lua's own conversion rounds to 14 digits.
local call, k, a = redis.call, KEYS, ARGV
local sub, fmt, find = string.sub, string.format, string.find
local GLOBALS, HEAD, PER_KEY = 7, 4, 6
local time = call('TIME')
local us = time[1] * 1000000 + time[2]
local now = math.floor(us / 1000)
local stamp = fmt('%016.0f', us)
local out, events, happened = {}, {}, 0

local WORD = {
  r = 'released', t = 'transferred', e = 'expired', v = 'revoked',
  s = 'superseded', w = 'wiped', g = 'gone',
}

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
    call('SET', k[5], fmt('%.0f', last))
  end
  local first, text = last - count + 1, table.concat(events, '\n')
  local function add()
    return redis.pcall('XADD', k[6], 'MINID', '~', fmt('%.0f', math.max(first - 65536, 0)),
      fmt('%.0f-0', first), 'a', stamp, 'n', count, 'e', text)
  end
  local added = add()
  if type(added) == 'table' and added.err then
    -- The stream is ahead of the counter: somebody touched one of them. Jump, so that watchers see a gap.
    first = math.max(us, first) + 1048576
    call('SET', k[5], fmt('%.0f', first + count - 1))
    call('DEL', k[6])
    add()
  end
  return first
end

local function spent_of(o)
  if not o then return '' end
  local state = sub(o, 1, 1)
  if state == 'h' then return sub(o, 77 + sub(o, 74, 76)) end
  if state == 'd' then return sub(o, 18) end
  if state == 'r' then return sub(o, 21 + sub(o, 18, 20)) end
  return sub(o, 2)
end

local function spend(digest, spent)
  return sub(digest, 1, 16) .. sub(spent, 1, 496)
end

local function holder_of(o)
  return sub(o, 77, 76 + sub(o, 74, 76))
end

local function heir_of(o)
  return sub(o, 21, 20 + sub(o, 18, 20))
end
