-- End a computation: store what there is to store, end the lock, say so to those who wait.
--
-- KEYS  1 lock   2 claim   3 mark   4 fail   5 wait
--       6 temporary key that holds the encoded entry   7 entry   8 base   9 index   10 generation
-- ARGV  1 token
--       2 result: stored, uncacheable, personal, failed, gave-up
--       3 location, for the announcement
--       4 lifetime of the entry, ms
--       5 vary record, "" for none
--       6 variant of the entry's location, "" at the base
--       7 what follows head and checksum in the vary record that the winner knew, "" for none
--       8 and 9 lifetimes of a mark, ms per count: comma separated lists, already jittered; 9: with its memory
--      10 and 11 pauses after the nth failure with and without a stale copy, ms, likewise
--      12 lifetime of the failure count, ms
--      13 generation to which the entry belongs, if it is a variant
-- Returns "done", "replaced", "invalidated" or "refused:<error>".
--
-- The body never passes through Lua: the caller has SET it at KEYS[6]. No error of one
-- step leaves the lock. A command that is sent again finds an entry with its own token and answers "done".

local token, result = ARGV[1], ARGV[2]

local function refused(reply)
  return type(reply) == 'table' and reply.err
end

local function nth(list, n)
  local i, last = 0, 0
  for number in string.gmatch(list, '%d+') do
    i, last = i + 1, tonumber(number)
    if i == n then break end
  end
  return last
end

local function count(value)
  return (value and tonumber(string.match(value, '^%d+')) or 0) + 1
end

local function millis()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local have = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[10])
local lock, claim, mark, fail, wait, generation = have[1], have[2], have[3], have[4], have[5], have[6]
local mine = claim == token
local gone = {}
local verdict = 'done'

local function head(key) -- kind, grant stamp and token of what is stored at key
  local raw = redis.pcall('GETRANGE', key, 0, 27)
  if type(raw) ~= 'string' or #raw < 28 then
    return '', 0, ''
  end
  local at = 0
  for i = 5, 12 do at = at * 256 + string.byte(raw, i) end
  return string.sub(raw, 1, 3), at, string.sub(raw, 13, 28)
end

-- names returns what a vary record says: the length of its metadata and the metadata, without the signature that may follow.
local function names(record)
  local size = 0
  for i = 33, 36 do size = size * 256 + (string.byte(record, i) or 0) end
  return string.sub(record, 33, 36 + size)
end

local function outlive(key) -- the key lives at least as long as the entry
  if redis.call('PTTL', key) < tonumber(ARGV[4]) then
    redis.call('PEXPIRE', key, ARGV[4])
  end
end

-- An entry at a variant is in the index before it exists, or invalidation would miss it.
local function indexed()
  if ARGV[6] == '' then return end
  local added = redis.pcall('SADD', KEYS[9], ARGV[6])
  if refused(added) and string.sub(added.err, 1, 9) == 'WRONGTYPE' then -- another kind of value stands in its place
    redis.pcall('DEL', KEYS[9])
    added = redis.pcall('SADD', KEYS[9], ARGV[6])
  end
  if refused(added) then return added.err end
  outlive(KEYS[9])
  if not generation then
    local begun = redis.pcall('SET', KEYS[10], ARGV[13], 'PX', ARGV[4])
    if refused(begun) then
      redis.call('DEL', KEYS[10])
      return begun.err
    end
  end
  outlive(KEYS[10])
end

-- The generation has ended since the winner began: the key was invalidated, whether or not the index still
-- knew of this variant. A winner at the base location has a claim there and may begin a generation, if no other
-- has since.
local function outdated()
  if ARGV[6] == '' or generation == ARGV[13] then return end
  if KEYS[1] ~= KEYS[8] .. ':lock' then return 'invalidated' end
  return generation and 'replaced'
end

-- A variant is stored by two kinds of winner: those that knew what the key varies on, and those that found out. The
-- later grant counts, whoever stores first. What a key varies on only grows.
local function overtaken()
  if ARGV[6] == '' then return false end
  local kind, theirs = head(KEYS[7])
  local _, ours = head(KEYS[6])
  if kind == 'hge' and theirs > ours then return true end
  local record = redis.pcall('GETRANGE', KEYS[8], 0, 4095)
  local known = type(record) == 'string' and string.sub(record, 1, 3) == 'hgr' and names(record)
  return known and known ~= ARGV[7] and known ~= names(ARGV[5]), known
end

local function store(known)
  local err = indexed()
  if err then return err end
  local moved = redis.pcall('RENAME', KEYS[6], KEYS[7])
  if refused(moved) then return moved.err end
  redis.call('PEXPIRE', KEYS[7], ARGV[4])
  if ARGV[5] ~= '' then
    local kind, theirs = head(KEYS[8])
    local _, ours = head(KEYS[7])
    if known == names(ARGV[5]) then
      outlive(KEYS[8])
    elseif kind == 'hge' and theirs > ours then
      -- A response that did not vary and was granted later: the record must not send its readers to an older one.
    else
      redis.pcall('SET', KEYS[8], ARGV[5], 'PX', ARGV[4])
    end
  end
end

if result == 'stored' then
  if mine then
    local late, known = overtaken()
    late = late and 'replaced' or outdated()
    local err = not late and store(known)
    if late then
      verdict = late
      gone[#gone + 1] = KEYS[6]
    elseif err then
      verdict = 'refused:' .. err
      gone[#gone + 1] = KEYS[6]
    else
      if mark then gone[#gone + 1] = KEYS[3] end
      if fail then gone[#gone + 1] = KEYS[4] end
    end
  else
    local _, _, stored_by = head(KEYS[7])
    if stored_by ~= token or ARGV[6] ~= '' and generation ~= ARGV[13] then
      verdict = claim and 'replaced' or 'invalidated'
    end
    gone[#gone + 1] = KEYS[6]
  end
elseif mine then
  if result == 'uncacheable' or result == 'personal' then -- the mark is that of the request's class
    local n = count(mark)
    redis.pcall('SET', KEYS[3], string.format('%d %.0f', n, millis() + nth(ARGV[8], n)), 'PX', nth(ARGV[9], n))
  elseif result == 'failed' then
    local n, now = count(fail), millis()
    redis.pcall('SET', KEYS[4], string.format('%d %.0f %.0f', n, now + nth(ARGV[10], n), now + nth(ARGV[11], n)), 'PX', ARGV[12])
  end
else
  verdict = claim and 'replaced' or 'invalidated'
end

if mine then gone[#gone + 1] = KEYS[2] end
if lock == token then gone[#gone + 1] = KEYS[1] end
local waiting = ''
if wait and (lock == token or not lock) then
  waiting = wait
  gone[#gone + 1] = KEYS[5]
end
if #gone > 0 then redis.pcall('DEL', unpack(gone)) end

local why = verdict == 'done' and result or 'gave-up'
for inbox in string.gmatch(waiting, '[^\n]+') do
  redis.pcall('PUBLISH', inbox, why .. ' ' .. ARGV[3])
end
return verdict
