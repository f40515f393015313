-- Look again and try to take the lock, in one step.
--
-- KEYS  1 lock   2 claim   3 mark   4 fail   5 wait   6 entry   7 base   8 index   9 generation
-- ARGV  1 token
--       2 lifetime of the lock, ms
--       3 lifetime of the claim, ms
--       4 head of the entry that the caller saw, "" for none
--       5 what follows the head and the checksum in the vary record that the caller used, "" for none
--       6 inbox channel to announce the end of somebody else's lock to, "" for none or if it is entered already
--       7 lifetime of the list of inboxes, ms
--       8 variant, "" at the base location
--       9 "1" if the caller has a stale copy
-- Returns one of
--   {"won", time in µs, generation}
--   {"held", ms left of the lock, its token}
--   {"changed", head}                             the entry is another one, with this head, or (without) the vary record is
--   {"uncacheable", ms left, 1 if claimed, time, generation}   also with more than 64 variants
--   {"failing", ms left}
--   {"nolock", error}                             a write was refused; nothing is left behind
--
-- A command that is sent again, because its reply was lost, finds its own token and
-- answers "won" again. A lock without a matching claim is free: the key was
-- invalidated, or the claim evicted.
--
-- The list of inboxes lives on with each that enters. A process enters once for each lock that it waits for, and again before
-- the list could have gone; a poll in between does not read it.
--
-- All variants of a key belong to one generation, which ends with an invalidation: a variant that the index
-- has forgotten, because it was evicted, goes with it.

local token, now = ARGV[1], nil
local have = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[9], ARGV[6] ~= '' and KEYS[5] or KEYS[9])
local lock, claim, mark, fail, wait = have[1], have[2], have[3], have[4], have[6] -- wait only for who enters

-- What the winner will store belongs to it. At the base location it may be the first variant, and begins one.
local generation = have[5] or token

local function micros()
  if not now then
    local t = redis.call('TIME')
    now = t[1] * 1000000 + t[2]
  end
  return now
end

local function refused(reply)
  return type(reply) == 'table' and reply.err
end

-- "<n> <until ms> ..." -> ms left of the nth number
local function remains(value, field)
  local i = 0
  for number in string.gmatch(value, '%d+') do
    i = i + 1
    if i == field then
      return tonumber(number) - math.floor(micros() / 1000)
    end
  end
  return 0
end

-- names returns what a vary record says: the length of its metadata and the metadata, without the signature that may follow.
local function names(record)
  local size = 0
  for i = 33, 36 do size = size * 256 + (string.byte(record, i) or 0) end
  return string.sub(record, 33, 36 + size)
end

-- A variant is in the index before it has a claim, or invalidation would miss the claim and what is stored
-- by it. Returns nil, "full" or an error.
local function indexed()
  if ARGV[8] == '' then return end
  local added = redis.pcall('SADD', KEYS[8], ARGV[8])
  if refused(added) and string.sub(added.err, 1, 9) == 'WRONGTYPE' then -- another kind of value stands in its place
    redis.pcall('DEL', KEYS[8])
    added = redis.pcall('SADD', KEYS[8], ARGV[8])
  end
  if refused(added) then return added.err end
  if added == 1 and redis.call('SCARD', KEYS[8]) > 64 then
    -- Forget variants that are neither stored nor being computed. If none is, the key has too many.
    for _, variant in ipairs(redis.call('SMEMBERS', KEYS[8])) do
      local at = KEYS[7] .. ':' .. variant
      if variant ~= ARGV[8] and redis.call('EXISTS', at, at .. ':claim') == 0 then
        redis.call('SREM', KEYS[8], variant)
      end
    end
    if redis.call('SCARD', KEYS[8]) > 64 then
      redis.call('SREM', KEYS[8], ARGV[8])
      return 'full'
    end
  end
  if redis.call('PTTL', KEYS[8]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[8], ARGV[3])
  end
  local begun = redis.pcall('SET', KEYS[9], token, 'NX', 'PX', ARGV[3])
  if not begun and not have[5] then -- another kind of value
    begun = redis.pcall('SET', KEYS[9], token, 'PX', ARGV[3])
  end
  if refused(begun) then return begun.err end
  if not begun and redis.call('PTTL', KEYS[9]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[9], ARGV[3])
  end
end

-- Enter an inbox with those that wait.
local function enter(inbox)
  local list = wait or inbox
  if not string.find(list, inbox, 1, true) then
    list = list .. '\n' .. inbox
  end
  redis.pcall('SET', KEYS[5], list, 'PX', ARGV[7])
end

if lock == token and claim == token then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return {'won', micros(), generation}
end

if mark then
  local left = remains(mark, 2)
  if left > 0 then
    local mine = claim == token
    if not mine and not indexed() then
      local set = redis.pcall('SET', KEYS[2], token, 'NX', 'PX', ARGV[3])
      mine = set and not refused(set)
    end
    return {'uncacheable', left, mine and 1 or 0, micros(), generation}
  end
end

if lock and lock == claim then
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then -- a lock without a lifetime is not one of ours: free
    if ARGV[6] ~= '' then enter(ARGV[6]) end
    return {'held', left, lock}
  end
end

local head = redis.pcall('GETRANGE', KEYS[6], 0, 27)
if type(head) == 'string' and head ~= ARGV[4] then
  return {'changed', head}
end
if ARGV[8] ~= '' then
  local record = redis.pcall('GETRANGE', KEYS[7], 0, 4095)
  if type(record) == 'string' and string.sub(record, 1, 3) == 'hgr' and names(record) ~= ARGV[5] then
    return {'changed'}
  end
end

if fail then
  local left = remains(fail, ARGV[9] == '1' and 2 or 3)
  if left > 0 then
    return {'failing', left}
  end
end

local err = indexed()
if err == 'full' then
  return {'uncacheable', 1000, 0, micros()}
elseif err then
  return {'nolock', err}
end

local set
if lock then
  set = redis.pcall('SET', KEYS[1], token, 'PX', ARGV[2])
else
  set = redis.pcall('SET', KEYS[1], token, 'NX', 'PX', ARGV[2])
end
if not set then -- another kind of value stands in the lock's place
  redis.pcall('DEL', KEYS[1])
  set = redis.pcall('SET', KEYS[1], token, 'NX', 'PX', ARGV[2])
end
if refused(set) then
  return {'nolock', set.err}
end
set = redis.pcall('SET', KEYS[2], token, 'PX', ARGV[3])
if refused(set) then
  redis.call('DEL', KEYS[1])
  return {'nolock', set.err}
end
return {'won', micros(), generation}
