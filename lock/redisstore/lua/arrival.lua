-- Functions for the times at which waiters took their places. KEYS 4 as in tokens.lua.
--
-- The score of an owner and a brace is the negative length of its place in ms. Its fraction is the time of
-- the arrival in ms, divided by 1e13. A score keeps the time to about a thousandth of the length. The place of
-- a client of an earlier version has no fraction.
--
-- Bound: one command.

-- arrival_of returns when an owner took its place, in ms, 0 if that is not known, or nil if it has no place.
local function arrival_of(owner)
  local length = redis.call('ZSCORE', KEYS[4], owner .. '}')
  if not length then
    return nil
  end
  local fraction = -(tonumber(length) or 0) % 1
  return fraction > 0 and fraction * 1e13 or 0 -- it is no number if the length is infinite
end

-- waited returns for how many ms an owner has had its place, or 0 if that is not known.
local function waited(owner, now)
  local arrival = arrival_of(owner) or 0
  return arrival > 0 and math.max(now - arrival, 1) or 0
end

