-- Remove a damaged value, unless it has been replaced meanwhile.
--
-- KEYS  1 entry or vary record
-- ARGV  1 its head, as it was read
-- Returns how many there were.

if redis.call('GETRANGE', KEYS[1], 0, 27) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
