"""Word lists written by hand: irregular forms, stop words, numbers, frequencies of everyday English."""

from __future__ import annotations

_FORMS = """
arise arose arisen, awake awoke awoken, beat beaten, become became, begin began begun, bend bent,
bet betting, bite bit bitten, bleed bled, blow blew blown, break broke broken, breed bred, bring brought,
build built, burn burnt, buy bought, catch caught, choose chose chosen, cling clung, come came coming,
creep crept, deal dealt, dig dug, do did done does doing, draw drew drawn, dream dreamt, drink drank drunk,
drive drove driven, eat ate eaten, fall fell fallen, feed fed, feel felt, fight fought, find found,
flee fled, fly flew flown, forbid forbade forbidden, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, get got gotten getting, give gave given giving, go went gone goes going,
grow grew grown, hang hung, have has had having, hear heard, hide hid hidden, hold held, keep kept,
know knew known, lay laid, lead led, leave left, lend lent, light lit, lose lost, make made making,
mean meant, meet met, pay paid, prove proven, ride rode ridden, ring rang rung, rise rose risen, run ran,
say said says, see saw seen, seek sought, sell sold, send sent, sew sewn, shake shook shaken, shine shone,
shoot shot, show shown, shrink shrank shrunk, sing sang sung, sink sank sunk, sit sat, sleep slept,
slide slid, speak spoke spoken, spend spent, spin spun, stand stood, steal stole stolen, stick stuck,
strike struck stricken, strive strove striven, swear swore sworn, sweep swept, swim swam swum, swing swung,
take took taken taking, teach taught, tear tore torn, tell told, think thought, throw threw thrown,
understand understood, wake woke woken, wear wore worn, weave wove woven, weep wept, win won,
write wrote written, be am is are was were been being, child children kid kids kiddo kiddos, person people,
man men, woman women, foot feet, tooth teeth, mouse mice, goose geese, life lives, wife wives, knife knives,
leaf leaves, shelf shelves, half halves, good better best, bad worse worst, mother mom mum mommy mama moms,
father dad daddy papa dads, grandmother grandma granny nana, grandfather grandpa granddad,
photograph photo photos pic pics picture pictures, television tv tvs, bicycle bike bikes,
airplane plane planes, refrigerator fridge, application app apps, movie film films, favorite favourite fav,
color colour, practice practise, program programme, cookie cookies, medicine medication medications meds,
doctor dr
"""
"""Base words, each with its irregular forms."""

IRREGULAR = {form: group.split()[0] for group in _FORMS.split(",") for form in group.split()[1:]}

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


_BY_SHARE = """
180 get go good help know like make need new one take think time use want work
100 add ask back chang come creat day differ even feel find first give great idea includ keep last long look
  lot mani much next now part person plan realli right say see start still sure tell thing tri way well year
60 abl alway answer around away believ big book bring call check choos consid earli easi enjoy exampl experi
  famili follow food free friend happen happi hard high home hope howev import inform interest kind late
  learn leav life list littl love meet month move name never nice number offer often old place play point
  possibl provid put question read real rememb run set share show small sometim special stay talk today
  togeth turn water week world write
40 absolut activ actual afternoon agre almost alreadi anoth anyth applic art avail begin build busi buy
  certain choic class clear close common communiti compani comput continu cost current date decid definit
  describ drive effect email end especi evening event everi everyon everyth exact explain extra favorit
  finish full futur game general goal group grow hear hour improv increas instead issu job key larg later
  listen live local main mayb mean messag minut moment money morn movi music night noth onlin open option
  order past pay perfect phone photograph popular practic price probabl problem process product project
  quick rather reason recent recommend reduc result save school servic sever shop short similar simpl simpli
  skill solut someon someth soon speak specif spend step stop store stori student studi suggest support
  teach team top travel trip understand usual video visit wait walk watch websit weekend whole
20 adult afraid airplan airport amaz angri anim apart appl arm aunt autumn awesom babi bad bag bake bathroom
  beach beauti bed bedroom beef beer bicycl bird birthday black blue bodi bore box boy bread breakfast
  bright brother brown bus butter cake car cat chair cheap chees chicken child chocol christma citi clean
  coffe cold color comfort cook cool couch countri coupl cousin cozi crazi cream creativ cute danger dark
  daughter deep delici desk dinner dirti dish doctor dog door dri drink ear eat egg empti energi excel excit
  exercis expens eye face fall fantast fast father fish flat flavor flight floor flower foot forest fresh
  fruit fun funni garden gift girl glad grandfath grandmoth green guest guy gym hair hand head health
  healthi heart heavi holiday hors hospit hot hotel hous husband ingredi island juic kitchen ladi lake leg
  light loud lucki lunch man meal meat medicin member menu milk mind mood mother mountain mouth neighbor
  nervous nose ocean oil pain parent park parti partner plant poor pretti proud quiet rain readi recip red
  relax rest restaur rice rich river road room round sad safe salad salt sauc scare sea season serious sick
  sister skin sleep slow snack snow soft son sorri soup spring state strang street stress strong sugar
  summer sun sweet tabl tast tea terribl thick thin ticket tire town train tree uncl uniqu vacat veget wall
  warm weak weather wed weight weird wet white wide wife wind window wine winter woman wonder workout worri
  wrong yard yellow yoga young
12 abil accept access account achiev act action address advantag advic affect afford age agreement aim air
  allow amount analysi appear appli appreci approach area arrang arriv articl artist aspect attend attent
  attitud audienc author averag avoid background balanc bank base basi becom behavior belief belong benefit
  bite block blood board boat bottl bottom brain brand break breath budget calendar camera campaign capit
  card care career carri case catch categori caus celebr cell center centuri challeng chanc charact charg
  chariti church circl climat cloth club coach coast code collect colleg combin comment committe communic
  compar competit complain complet concentr concept concern condit confer confid confirm connect contact
  contain content contract control convers copi corner count cours court cover craft credit cross crowd
  cultur cup custom cut damag danc data deadlin deal death debt decis decor degre deliv demand depart depend
  design destroy detail develop devic difficulti direct discount discov discuss diseas distanc divid
  document download dream dress drop earn edg editor educ effort element employe encourag engag engin enter
  environ equip error essay establish exam exchang exhibit exist expect expert express fact factor fail
  failur faith fan farm fashion fear featur fee feedback field fight figur file fill finger fire firm fit
  fix fli flow focus folder forc forget form foundat frame freedom front fuel function fund furnitur gain
  galleri gap gas gather gear generat genr glass gold govern grade groceri ground growth guess guid guitar
  habit half hall handl hang hate height hero hide histori hit hobbi hold hole human hurri hurt identifi
  imag imagin impact incom industri influenc injuri inspir insur internet interview introduc invest invit
  involv item jacket join journal journey judg jump kick kill knee knock knowledg lab lack land languag
  laptop laugh law layer lead leader leagu lend length lesson letter level librari licens lift limit line
  link load loan locat lock log lose loss luck machin magazin mail maintain manag map mark market marri
  marriag match materi matter measur media memori mental mention metal method middl mile miss mistak mix
  mode model museum natur neighborhood network news newspap nois normal note notebook notic novel object
  observ obtain offic opinion opportun organiz outfit owner pack page paint pair paper pass passion path
  patient pattern peac perform period permiss pet philosophi physic piano pick piec player pleasur podcast
  poem poet polic polici polit pool popul posit power prefer prepar present press pressur prevent principl
  print prize produc professor profil profit program progress promis promot properti propos protect protein
  prove psycholog public pull purpos push qualiti race radio rais rang rate reach react realiz receiv recogn
  record refer reflect refus relat relationship releas reli religion remain remind remov rent repair repeat
  replac repli report repres request requir research reserv resourc respect respond respons return review
  ride ring rise risk role roll root rout routin row rule sale sampl scale scene schedul scienc score screen
  script search seat secret section secur seem select self sell send sens separ seri serv session settl
  shake shape shirt shoe shoot shout shower sign silver sing singer sit site situat size sky smell smile
  soap social societi softwar soil solv song sort soul sound sourc space speech speed sport spot spread
  staff stage stand standard star stare statement station status stick stock stone strategi strength stretch
  structur struggl studio style subject succeed success suffer suit summari suppli suppos surfac surpris
  survey surviv swim switch symbol system talent target task tax teacher techniqu technolog televis
  temperatur term test text thank theater theme theori threat throw tip titl tone tool topic total touch
  tour tourist toy track tradit traffic treat treatment trend trust truth tutori type universiti updat user
  valu vari varieti version victori view villag visitor voic volum volunt vote wake war warn wash wast wave
  wealth wear welcom wheel wish wood word worker workshop wrap zone
6 academ accid accur actor addit advanc adventur aesthet agenc alarm album alcohol altern ancient angl
  anniversari announc annual anxieti apolog appoint approv architect argu armi assist associ assum athlet
  atmospher attach attack attempt attract authent awar award balconi ball balloon banana band bar bare
  basket basketbal bath batteri bean bear bell belt bench bend bet bill blanket blend blog blow boil bone
  border borrow boss bowl branch brave brief broad brush bug burn button cabin cabl calm camp campus cancel
  cancer candi candl carbon carrot cash castl casual catalog cave cereal ceremoni chain champion channel
  chapter chase chat chef chest chip classic cliff clock cloud coin collabor column comedi commit compet
  complex concert config conflict confus consult consum contest context conveni convinc cooki corn costum
  cotton crash crime critic cure curious curtain cycl daili databas dead debat debug decad decreas default
  delay delet deploy deposit desert deserv desir dessert destin detect diet digit diploma directori
  disappear display divers doc dozen draft drama draw drawer drug dust duti earth east economi edit effici
  electr eleg emergenc emot encount endpoint enemi enorm ensur entertain enthusiast entir entranc
  environment equal era escap estim ethic evalu evid evolv excus exot expand explod explor export extend
  extrem fabric facil fair fake fame famous fantasi fault favor festiv fever fiction filter final financ
  flag flame flexibl flood flour fold folk footbal foreign formal format former fortun forward fox framework
  frequent frog frustrat garag garlic gentl genuin ghost giant git global glove goat golf grab gradual
  graduat grain grand grant grass grate grill guarante guard guidelin gun handi harbor harm hat heat heaven
  hesit highlight hike hint hire honest honey honor horror huge humor hungri hunt ice icon ideal ident ill
  illeg immedi impress independ index individu initi innov insect insid insight instal instant instruct
  instrument intens interact interfac interior internat invent investig jam jazz jewelri joke journalist joy
  justic keyboard kiss kitten knife label ladder lamp landscap laundri lawyer lazi leaf lectur legal lemon
  lid lifestyl lip liquid literatur logic lone loos luxuri magic mainten major mango manner manufactur
  marathon mask master math maximum medit medium melt merg mess minimum minor mirror mission mixtur mobil
  modern modest modul moistur monitor moral motion motiv motor mous muscl mushroom mysteri nake narrow
  nation nativ navig nearbi neat neck negat negoti nerv nurs nut nutrit occas odd offens offici onion oper
  opera oppon opposit orang organic origin outdoor outsid oven overal overcom overwhelm oxygen packag palac
  pan panel panic parad paramet particip passeng passport password pasta patienc paus pen pencil pepper
  percent perman perspect phrase pie pillow pilot pin pink pipelin pitch pizza planet plastic plate platform
  plenti plot pocket poetri pop portrait postcard pot potato potenti pound pour powder pray precious predict
  pregnant premium presenc preserv presid pride primari princ princess prioriti prison privat profession
  pronounc proof proper protest puppi purchas pure purpl puzzl qualifi quarter queen queri quit quot rabbit
  random rare raw recal recov recycl refresh regret regular relev relief remot repositori resid resist
  resort restor resum retail retir reveal reward rhythm ritual robot rock romant roof rope rough ruin rural
  rush sail salari salmon sand satisfi sceneri scholarship scientist scratch sculptur secretari seed seek
  senior sensit sentenc server setup shade shadow shame sharp sheep sheet shelf shell shelter shift shine
  ship shock shore shoulder sibl signal signific silenc silli sincer sketch skirt slice slide slip smart
  smooth soccer sofa solar soldier solid somewher spare spice spici spider spirit spiritu split spoon squad
  squar stabl stadium stair stamp starv statu steadi steak steal steam stomach storag storm stream strict
  string strip subscrib substanc suburb sudden suffici suitcas sunni sunset surgeri suspect sustain swap
  swing sympathi symptom syntax tail tale tank tap tape tear technic teenag templ temporari tend tenni
  tension tent terrif terrifi therapi thrill throat tight tini toe toilet token tomato tongu tooth tough
  towel tower toxic trade trail transfer transform translat transport trash treasur trick troubl truck tube
  tune twin twist typic ugli umbrella underground uniform union univers unusu upgrad upload upset urban
  urgent valley valuabl van variabl vast vegan vegetarian vehicl vibrant victim virtual virus visibl vision
  vital vitamin vocabulari weapon west whisper wild wing wire wise wit wolf wooden wool workflow workplac
  wound wrist writer yogurt youth
"""
"""Bands of stems, each after its share of short texts in thousandths; a word in no band is rare. Estimated,
not counted: a small store only needs to know that "help" tells less than "harpsichord"."""


SHARES: dict[str, float] = {}
_share = 0.0
for _word in _BY_SHARE.split():
    if _word.isdigit():
        _share = int(_word) / 1000
    else:
        SHARES[_word] = _share

CJK_WORDS = (
    "会议 会员 会计 会话 会场 会签 会诊 会面 会展 会所 会长 会馆 开会 例会 早会 晨会 晚会 "
    "周会 月会 年会 班会 站会 大会 工会 协会 宴会 聚会 约会 家长会 董事会 委员会 评审会 "
    "发布会 复盘会 社会 机会 要求 要点 要素 需要 重要 主要 必要 纪要 摘要 概要 想法 理想 "
    "思想 设想 功能 性能 能力 能源 能耗 节能 智能 技能 产能 职能 有限 有效 有机 有空 有关 "
    "有误 有无 所有 拥有 私有 自有 和解 饱和 总和 缓和 参与 与会 把握 把手 把关 被告 理由 "
    "路由 自由 事由 请求 请假 请示 请柬 申请 邀请 聘请 在线 在职 在校 在库 在途 在岗 现在 "
    "存在 所在 内在 了解 目的 自我 其他 吉他 就业 就诊 就餐 就医 就职 成就 首都 都市 成都 "
    "几何 茶几 酒吧"
).split()
"""Chinese words with a character that is a function word by itself."""
