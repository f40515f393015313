-- Renew the lock if it is still the token's. Never creates one.
--
-- KEYS  1 lock   2 claim   3 generation
-- ARGV  1 token  2 lifetime of the lock, ms   3 the winner's generation, "" at the base location
-- Returns "held", or "lost" (the claim is still the token's), or "revoked".

local have = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
if have[2] ~= ARGV[1] or ARGV[3] ~= '' and have[3] ~= ARGV[3] then
  return 'revoked'
end
if have[1] ~= ARGV[1] then
  return 'lost'
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'held'
