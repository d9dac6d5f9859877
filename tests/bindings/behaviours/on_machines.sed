# Leaves out of the table what groups of several machines cannot do: growth, so far.
/^scenario growth$/,/^scenario /{
  /^scenario growth$/d
  /^scenario /!d
}
