"""Word lists for `support`, written by hand: words without weight, synonyms, opposites, negations."""

from __future__ import annotations

import re

from nacre.memory.recall.ranking.terms import normal


def _stems(text: str) -> frozenset[str]:
    return frozenset(normal(word) for word in text.split())


NEGATIVE = _stems(
    """
not no never none neither nor without insteadof avoid avoids stop stops skip skips skipped ban banned bans
forbid forbidden prohibit prohibited exclude excluded disallow disallowed refuse refused reject rejected
quit quits noone
omit omitted bypass bypassed ignore ignored ignores disable disabled drop dropped remove removed
delete deleted off nothing nobody cannot dislike dislikes hate hates nicht kein keine nie niemals ohne
"""
) | {"not", "no", "insteadof", "off", "ruled"}
"""Words that deny what follows, or what is before them at the end of a clause; two of them cancel out."""

DESTRUCTIVE = _stems("drop dropped remove removed delete deleted disable disabled bypass bypassed")
"""Those of them that are acts of their own."""

SOFT_NEGATIVE = _stems(
    """
bug bugs break broke broken hid hide hides fail fails failed failing failure problem problems annoy annoying
annoys wrong slow freeze freezes frozen halt halts block blocks blocked pause paused lose lost crash crashed
crashes flaky bad confusing mistake issue issues error errors noisy ugly painful outage leak leaked pointless
useless
dangerous risky deprecated outdated obsolete legacy
"""
)
"""Words by which a person calls something a problem."""

GENERIC = (
    _stems(
        """
user person human people something someone somebody somewhere accept accepts accepted run runs running
developer agent assistant team teams project memory session conversation prefer prefers preferred preference
preferences want wants wanted like likes liked expect expects need needs needed require requires required
requirement say says said state stated mention mentioned explain explained choose chose chosen choice pick
picked decide decided decision agree agreed note noted remember know known please always usually generally
normally typically often every everything currently now still already actually really explicitly strictly
clearly specifically particularly especially directly simply use uses used using make makes made do does
done get gets got go goes going come comes take takes taken give given put keep keeps kept set sets hold
holds live lives belong belongs concern concerns apply applies contain contains include includes base based
locate located sit sits happen happens mean means work works working become remain stay stays be responsible
rule rules convention guideline policy practice standard default way thing things case cases fact reason
reasons because due purpose one must should shall instead also too place placed good well better best
current own whole general certain particular specific today yesterday tomorrow day days week month year time
times moment spring summer autumn fall winter morning evening seen see sees look looks looked show shows
find finds found here there where when which whose kind type sort part parts number context background
information info detail details topic about regarding related let stick wir ich uns bitte immer auf für
nehmen nutzen verwenden nutzer nutzerin braucht brauchen benötigt möchte möchten will wollen soll sollen hat
haben wird werden ist sind arbeitet btw fyi ping contact anymore hey hello thanks thank okay yeah oh
der die das den dem des ein eine einen einem einer le la les un une du dans vont sont est el los las una del
follow follows handle handles department experience much many very quite mostly rise rises rose risen increase
increased
"""
    )
    | NEGATIVE
)
"""Words that any memory may contain: they support nothing and need no support."""

GENERIC_ACTS = _stems("use make do go take give put accept run let follow handle contact ping")
"""Those of them that are orders on their own: "Run it everywhere"."""

TASKS = _stems(
    """
fix add search grep rename write translate explain summarise summarize find check look read open list debug
implement refactor replace investigate print draft compare analyse analyze describe count extract parse
"""
)
"""Verbs of orders for now: what a task is about is no statement."""

LABELS = _stems(
    """
preference preferences schedule policy process procedure workflow style convention conventions setup
settings configuration rule rules guideline guidelines choice owner ownership contact location management
manager tooling tool tools version versions requirement requirements constraint constraints naming format
formatting structure architecture practice practices habit habits communication feedback correction update
status plan planning note notes reference language languages package packages framework library environment
"""
)
"""Words of titles and descriptions that name what kind of thing a memory is."""

_SYNONYMS = """
short brief concise terse succinct compact
long lengthy verbose
reset wipe wiped clear cleared purge purged recreate
nightly night
daily day
bug bugs defect defects issue
hide hidden hid conceal concealed mask masked
database db databases
repository repo repositories repos
configuration config configure configured settings setting
environment env
directory folder dir directories folders
documentation docs doc documents
function method functions methods func
dependency dependencies package packages dep deps library libraries lib
production prod
development dev
application app apps
administrator admin
message messages msg
parameter param argument arg parameters arguments
pull pr prs mr mrs
own owns owner owned responsible charge maintain maintains maintainer owning
ask approve approval consult check permission
track tracked tracks file filed
start begin begins starts started
end finish ends finished complete completed
fix repair fixed fixes repaired resolve resolved
big large huge
small little tiny
quick fast rapid quickly
write author written writes
run execute runs executed launch
answer answers reply replies response responses respond
comment comments remark
english
call called name named
move migrate migrated migration moved migrating switch switched
change modify changes changed modified modification edit edits edited
create created add added adds creating
build compile builds compiled built
test tests testing spec specs tested
deploy deploys deployment deployments release releases released ship shipped ships rollout
customer customers client clients
friday fridays fri
monday mondays mon
tuesday tuesdays tue
wednesday wednesdays wed
thursday thursdays thu
saturday saturdays sat
sunday sundays sun
fine ok okay ordnung allowed
rest else remaining others
physio physiotherapy
chemistry chem
university uni
bulleted bullet bullets
list lists listing
freeze freezes frozen
picture image images pictures screenshot screenshots
error errors exception exceptions
log logs logging
indent indentation indented indents
space spaces
tab tabs
character characters char chars
line lines
commit commits committed committing
branch branches
review reviews reviewed reviewer reviewers
colleague coworker teammate
company employer firm
job role position
backend
frontend
spelling spelled spell
timezone zone
type typed typing hints annotations
explanation explanations explain
summary summaries summarise summarize summarising summarizing recap recaps
emoji emojis
manage manages manager managed
host hosted hosts hosting
store stored stores storage saved
located lives lives
connect connects connection
document written documented
"""

SYNONYMS: dict[str, frozenset[str]] = {}
"""For each stem those that mean the same."""
for _line in _SYNONYMS.split("\n"):
    _group = _stems(_line)
    for _word in _group:
        SYNONYMS[_word] = SYNONYMS.get(_word, frozenset()) | _group

_OPPOSITES = """
before | after
always | never
all every | none
with | without
more | less fewer
above | below
minimum | maximum
allow permit accept | deny forbid block refuse reject
enable | disable
on | off
true | false
public | private
internal | external
open | closed
first | last
increase | decrease reduce
include | exclude
trusted | untrusted
safe | unsafe
required mandatory | optional
must | may
local | remote
manual manually | automatic automatically
sync synchronous | async asynchronous
tab tabs | space spaces
staging | production prod
early | late
left | right
upper uppercase | lower lowercase
light | dark
short brief | long verbose
small | large big
start | stop
add | remove
monday | tuesday wednesday thursday friday saturday sunday
tuesday | wednesday thursday friday saturday sunday
wednesday | thursday friday saturday sunday
thursday | friday saturday sunday
friday | saturday sunday
saturday | sunday
signed | unsigned
encrypted | unencrypted plaintext
single | double
merge | rebase squash
rebase | squash
read | write
up | down
inside | outside
indoors | outdoors
online | offline
day | night
morning | evening night
come came join joined return returned | leave left quit
old | new
broken broke defective | works working intact
pass passed succeed succeeded | fail failed
noon | midnight
win won | lose lost
"""

OPPOSITES: dict[str, frozenset[str]] = {}
"""For each stem those that say the contrary; used instead of one another they change a statement."""
for _line in filter(None, _OPPOSITES.split("\n")):
    _left, _right = map(_stems, _line.split("|"))
    for _word in _left | _right:
        OPPOSITES[_word] = OPPOSITES.get(_word, frozenset()) | (_right if _word in _left else _left)

GENERIC_HAN = re.compile(
    "用户|这个|那个|一个|每次|总是|一直|以后|今后|已经|目前|现在|需要|希望|喜欢|偏好|要求|应该|必须|务必|记住|记得|请|的|了|是|在|要|会|把|被|"
    "我们|我|你|他|她|它|们|和|与|或|并|且|也|都|就|先|再|给|让|为|个|次|所有|任何|进行|使用|用|说|表示|认为|团队|项目"
)
"""Chinese words without weight."""
