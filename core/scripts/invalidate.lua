-- Remove every variant of a key with its claim and its lock: nothing older is served
-- or stored after this. Variants that the index has forgotten go with the generation.
--
-- KEYS  1 base   2 index
-- ARGV  1 channel of those that keep copies
-- Returns how many locations there were.
--
-- The other keys are made from KEYS[1]; they share its hash tag and so its slot.

local variants = redis.pcall('SMEMBERS', KEYS[2])
if variants.err then
  variants = {}
end
local at = {KEYS[1]}
for _, variant in ipairs(variants) do
  at[#at + 1] = KEYS[1] .. ':' .. variant
end
for _, loc in ipairs(at) do
  local wait = redis.call('MGET', loc .. ':wait')[1]
  redis.call('DEL', loc, loc .. ':claim', loc .. ':lock', loc .. ':wait')
  for inbox in string.gmatch(wait or '', '[^\n]+') do
    redis.pcall('PUBLISH', inbox, 'gave-up ' .. loc)
  end
end
redis.call('DEL', KEYS[2], KEYS[1] .. ':gen')
redis.pcall('PUBLISH', ARGV[1], KEYS[1])
return #at
