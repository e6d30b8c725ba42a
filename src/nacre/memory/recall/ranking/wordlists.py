"""Word lists written by hand: irregular forms, stop words, numbers, and small families of words."""

from __future__ import annotations


def _forms(table: str) -> dict[str, str]:
    """Each line: a base word and its irregular forms."""
    return {form: line.split()[0] for line in table.strip().splitlines() for form in line.split()[1:]}


IRREGULAR = _forms("""
arise arose arisen
awake awoke awoken
beat beaten
become became
begin began begun
bend bent
bet betting
bite bit bitten
bleed bled
blow blew blown
break broke broken
breed bred
bring brought
build built
burn burnt
buy bought
catch caught
choose chose chosen
cling clung
come came coming
creep crept
deal dealt
dig dug
do did done does doing
draw drew drawn
dream dreamt
drink drank drunk
drive drove driven
eat ate eaten
fall fell fallen
feed fed
feel felt
fight fought
find found
flee fled
fly flew flown
forbid forbade forbidden
forget forgot forgotten
forgive forgave forgiven
freeze froze frozen
get got gotten getting
give gave given giving
go went gone goes going
grow grew grown
hang hung
have has had having
hear heard
hide hid hidden
hold held
keep kept
know knew known
lay laid
lead led
leave left
lend lent
light lit
lose lost
make made making
mean meant
meet met
pay paid
prove proven
ride rode ridden
ring rang rung
rise rose risen
run ran
say said says
see saw seen
seek sought
sell sold
send sent
sew sewn
shake shook shaken
shine shone
shoot shot
show shown
shrink shrank shrunk
sing sang sung
sink sank sunk
sit sat
sleep slept
slide slid
speak spoke spoken
spend spent
spin spun
stand stood
steal stole stolen
stick stuck
strike struck stricken
strive strove striven
swear swore sworn
sweep swept
swim swam swum
swing swung
take took taken taking
teach taught
tear tore torn
tell told
think thought
throw threw thrown
understand understood
wake woke woken
wear wore worn
weave wove woven
weep wept
win won
write wrote written
be am is are was were been being
child children kid kids kiddo kiddos
person people
man men
woman women
foot feet
tooth teeth
mouse mice
goose geese
life lives
wife wives
knife knives
leaf leaves
shelf shelves
half halves
good better best
bad worse worst
mother mom mum mommy mama moms
father dad daddy papa dads
grandmother grandma granny nana
grandfather grandpa granddad
photograph photo photos pic pics picture pictures
television tv tvs
bicycle bike bikes
airplane plane planes
refrigerator fridge
application app apps
movie film films
favorite favourite fav
color colour
practice practise
program programme
cookie cookies
medicine medication medications meds
doctor dr
""")

STOP = frozenset(
    """
a an the and or but nor so yet if then than that this these those there here
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
am is are was were be been being do does did doing done have has had having
will would shall should can could may might must ought
of in on at to from by for with about into onto over under after before between through during
as up down out off again further once too very just also only own same such
not no what which who whom whose when where why how
all any both each few more most other some
s t d ll m re ve don didn doesn isn aren wasn weren won wouldn couldn shouldn hasn haven hadn ain
m let lets im ive id
""".split()
)

QUESTION_STOP = frozenset(
    """
tell remind mention mentioned say said know recall remember please think many much long often far
ever currently recently kind type sort name list question previous conversation conversations chat
discuss discussed talk talked describe explain give provide show suggest recommend recommendation help
summary summarize overview comprehensive detailed detail complete full thorough key order sequence
brought bring aspect different various throughout across item walk progress progressed evolve evolved
development timeline develop mainly main topic include including time day date month year week number total
happen happened thing things something way would like want need look looking lot get got go went
make made take took use used do did have had come came start started new first last most best
between passed since ago past recent session sessions
""".split()
)
"""Words that steer a question rather than name what is asked; weak evidence, not none."""

NUMBERS = {
    w: str(n)
    for n, w in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen twenty".split()
    )
    if n != 1
}
"""Number words by their digits; "one" is left out, being a pronoun more often than a number."""
NUMBERS |= {"thirty": "30", "forty": "40", "fifty": "50", "hundred": "100"}
NUMBERS |= {"first": "1st", "second": "2nd", "third": "3rd"}
