# A small entry is everywhere in a second or two; an older one changes nothing; a late comer is told.
nodes 12
run 5s
tell c 7 3 99
run 2s
entry 7
> a b c d e f g h i j k l: 99 of version 3
tell d 7 2 55
run 2s
entry 7
> a b c d e f g h i j k l: 99 of version 3
start z
run 2s
entry 7
> a b c d e f g h i j k l z: 99 of version 3
