-- Give back a lock whose acquire had an unknown outcome: compare and delete.
--
-- KEYS  1 lock   2 claim
-- ARGV  1 token
-- Returns how many of the two were the token's.

local have = redis.call('MGET', KEYS[1], KEYS[2])
local n = 0
for i = 1, 2 do
  if have[i] == ARGV[1] then
    n = n + redis.call('DEL', KEYS[i])
  end
end
return n
