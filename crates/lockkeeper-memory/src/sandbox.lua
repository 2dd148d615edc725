-- The world that a script sees: Redis' Lua, as far as Lockkeeper's rules for scripts let it be used.
--
-- Returns `run(script, native, keys, argv)`, which runs a script to its end and returns true and its value, or false and
-- the text of its error; and the table that is a script's global environment.
--
-- `native(...)` executes a command and returns whether it was refused, and the reply or the refusal's text. It never
-- raises: an error raised on the other side would arrive here as a foreign object, not as the table a script expects.

local READ_ONLY = 'Attempt to modify a readonly table'
local assert, error, getmetatable, pairs, pcall, rawset, setmetatable, tostring, type =
  assert, error, getmetatable, pairs, pcall, rawset, setmetatable, tostring, type

local protected = {}

-- A view of `content` that cannot be written, not even by rawset.
local function read_only(content)
  local view = {}
  protected[view] = true
  return setmetatable(view, {
    __index = content,
    __newindex = function()
      error(READ_ONLY, 2)
    end,
    __metatable = false,
  })
end

local function copy(library, without)
  local copied = {}
  for name, value in pairs(library) do
    copied[name] = value
  end
  for _, name in pairs(without or {}) do
    copied[name] = nil
  end
  return copied
end

-- The text of an error: a table's `err`, or what was raised with the code that Redis gives it.
local function text(problem)
  if type(problem) == 'table' then
    return type(problem.err) == 'string' and problem.err or 'ERR unknown error'
  end
  return 'ERR ' .. tostring(problem)
end

-- `-CODE message` or `CODE message`; a single word is a message without a code.
local function with_code(message)
  message = message:gsub('^%-', '', 1)
  return message:find(' ', 1, true) and message or 'ERR ' .. message
end

local function single(field, read)
  return function(...)
    local message = ...
    if select('#', ...) ~= 1 or type(message) ~= 'string' then
      return { err = 'ERR wrong number or type of arguments' }
    end
    return { [field] = read and read(message) or message }
  end
end

local native

local redis = {
  call = function(...)
    local refused, reply = native(...)
    if refused then
      error({ err = reply })
    end
    return reply
  end,
  pcall = function(...)
    local refused, reply = native(...)
    return refused and { err = reply } or reply
  end,
  -- There are no users.
  acl_check_cmd = function()
    return true
  end,
  error_reply = single('err', with_code),
  status_reply = single('ok'),
}

-- Redis' own pcall hands out the text of a refusal, not the table it was raised as.
local function told(ok, ...)
  local problem = ...
  if not ok and type(problem) == 'table' and type(problem.err) == 'string' then
    return false, problem.err
  end
  return ok, ...
end

local visible = {
  _VERSION = _VERSION,
  assert = assert,
  error = error,
  getmetatable = getmetatable,
  ipairs = ipairs,
  next = next,
  pairs = pairs,
  rawequal = rawequal,
  rawget = rawget,
  select = select,
  tonumber = tonumber,
  tostring = tostring,
  type = type,
  unpack = unpack,
  pcall = function(...)
    return told(pcall(...))
  end,
  rawset = function(table, ...)
    if protected[table] then
      error(READ_ONLY, 0)
    end
    return rawset(table, ...)
  end,
  setmetatable = function(table, ...)
    if protected[table] then
      error(READ_ONLY, 0)
    end
    return setmetatable(table, ...)
  end,
  math = read_only(copy(math, { 'random', 'randomseed' })),
  redis = read_only(redis),
  string = read_only(copy(string, { 'dump' })),
  table = read_only(copy(table)),
}
visible._G = read_only(visible)
setmetatable(visible, {
  __index = function(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
  end,
})

-- `('x'):upper()` finds its methods here, past every view.
getmetatable('').__metatable = false

local function run(script, command, keys, argv)
  native, visible.KEYS, visible.ARGV = command, keys, argv
  local ok, value = pcall(script)
  native = nil
  if ok then
    return true, value
  end
  return false, text(value)
end

return run, visible._G
