"""Chinese phrases of the embedded provider; ambiguous ones are left out on purpose."""

from __future__ import annotations

import re

from nacre.providers.embedded.grammar import Grammar, Intent, Notation

ZH = Notation({
    "ASK": r"(?:请|麻烦|劳驾|拜托|帮我|帮忙|给我|你要|你得|你可以|你|我(?:想|要|希望|想要)(?:让)?你"
    r"|一定要?|务必|千万|要|先|就|也|还)*\s*",
    "OPENER": r"(?:(?:不对|不是(?=[，,。\s])|不(?=[，,])|错了|你?(?:说|记|弄|搞)错了|我(?:刚才)?说错了"
    r"|更正(?:一下)?|纠正(?:一下)?|其实|实际上"
    r"|等等|抱歉|对不起)\s*[，,：:。！!]?\s*)+",
    "ANY": ".+",
    "WORDS": ".+?",
    "CLAUSE": r"[^，,；;。：:？?]+?",
    "SHORT": r"[^，,；;。：:？?]{1,40}?",
    "ABOUT": "(?:关于|有关|对于)",
    "THING": "(?:的(?:那些|这些)?(?:事情|事儿|事|内容|记忆|信息|一切|话|东西|记录|情况)|的)?",
    "NOTE": "(?:记住|记一下|记下来|记下(?!来)|记着|牢记|记好|记录一下|记录下来|记录下(?!来))",
    "DONTFORGET": "(?:别忘了|别忘记|不要忘了|不要忘记|别忘(?![了记])|勿忘)",
    "DROP": "(?:忘掉|忘了|忘记|忘光|删掉|删除|删了|清除|抹掉|去掉)",
    "ERASE": "(?:删掉|删除|删了|清除|抹掉|去掉|移除)",
    "MEMORY": "(?:你的)?记忆(?:库)?(?:里面|里|中)?",
    "DIRECTIVE": "(?:都|请|一律|统一|总是|永远|每次|不要|别|不许|不准|只用|就用|改用|默认|用|必须|一定|务必)",
    "THIS": "(?:这个|这件事|这一点|这点|这些|这条|这|它|上面的话|我说的话|我刚才说的)",
    "KEEP": "(?:保存|存|加|加入|添加|写|记)(?:到|进|入|在)?",
    "SAY": "(?:说|提|讲|告诉|聊|谈|问)(?:过|到|起)*(?:你)?(?:过)?",
    "WHATEVER": "(?:些什么|什么|哪些|多少|啥)",
    "WHENEVER": "(?:是)?(?:在)?(?:什么时候|何时|哪天|哪一天|几时|啥时候|多久(?:以)?前)",
    "MA": "(?:吗|嘛|(?<!什)么|(?<!什么)不)",
    "KNOW": "(?:知道|记得|了解|记住了|记了)",
    "ANSWER": "(?:事情|事|内容|信息)?",
    "ISWHAT": "(?:是什么|是谁|是哪个|是多少|叫什么(?:名字)?|在哪里|在哪儿|在哪|是哪天|是几号|是什么时候)",
    "TOLD": "(?:说的|说过的|说过|提到的|告诉你的)",
    "BEFORE": "(?:之前|以前|曾经|刚才|曾)?",
    "TOYOU": "(?:跟你|和你|对你)?",
    "ALL": "(?:全部|全|都)?",
    "COLON": r"\s*[:：]\s*",
    "COMMA": r"\s*[，,、]?\s*",
    "PATH": r"(?:`[^`]+`|“[^”]+”|「[^」]+」|\"[^\"]+\"|'[^']+'|[A-Za-z0-9_./~-]*[./][A-Za-z0-9_./~-]+"
    r"|README|LICENSE"
    r"|Makefile|Dockerfile)",
    "GLOB": r"[A-Za-z0-9_./~-]*[*?][A-Za-z0-9_./~*?-]*",
    "PLACE": "[A-Za-z0-9_./~-]+",
})  # fmt: skip

_ASKS = r"[?？]\s*$|(?:吗|呢|么|没有|没)\s*[?？。!！]*\s*$"
_MUSING = _ASKS + (
    r"|(?:记住|记下|记好|忘|记得)(?:了|我|你|吧|啊|哦)*\s*[。.!！]*$"
    r"|(?:怎么|如何|为什么|为何|什么|哪里|多少)"
    r"|记得(?:当时|那天|那年|那次|那时|小时候|上次|以前|曾经|我们|第一次|有一次|有次)"
)
_ASIDE = r"[，,；;？?]|怎么办|吗\s*$|(?:先|暂时|一会儿)"

CHINESE = Grammar(
    language="zh",
    lead=re.compile(
        r"(?:(?:你好|您好|嗨|嘿|好的|好吧|好|嗯|哦|那|另外|对了|还有|而且|谢谢|顺便(?:说一下|提一下|说)?"
        r"|nacre)[，,。！!、：:\s]+)+",
        re.IGNORECASE,
    ),
    tail=re.compile(
        r"(?:[，,。\s]+(?:谢谢(?:你|您)?|多谢|拜托(?:了)?)|[，,。\s]*(?:好吗|好不好|行吗|可以吗|行不行"
        r"|好么))\s*[。.!！?？]*$"
    ),
    polite=re.compile(r"(?:你|您)?(?:能不能|能否|可不可以|可以|可否|能)(?:请)?(?:你|您)?"),
    headed=(
        *ZH.rules(
            Intent.REMEMBER,
            "ASK(NOTE|记得|DONTFORGET|做[个]笔记|备忘[一下]|备注一下|保存|KEEPMEMORY)"
            "[(THIS|以下内容|以下|一件事|下面的内容|下面这些)]COLON<text:ANY>",
            "ASK把(以下内容|以下|下面的内容|下面这些|下面的话)(NOTE|KEEPMEMORY)COLON<text:ANY>",
        ),
    ),
    rules=(
        *ZH.rules(
            Intent.WHEN,
            "[你][还][(记得|知道)]我[上次|最后一次|第一次|最早]"
            "WHENEVERTOYOUSAY[关于]<query:WORDS>THING[的][吗]",
            "我TOYOUSAY[关于]<query:WORDS>THING(是)?WHENEVER[的事]",
        ),
        *ZH.rules(
            Intent.RECALL,
            "ASK[(告诉我|说说|讲讲)][你][还][都]KNOW[些]ABOUT<query:WORDS>THINGWHATEVERANSWER",
            "ABOUT<query:WORDS>THINGCOMMA你[还][都]KNOW(WHATEVER|吗)ANSWER",
            "你对<query:WORDS>[还](有什么|有多少|有)[的](了解|印象|记忆)[吗]",
            "(我|我们)BEFORE[有没有|是不是]TOYOUSAY[关于]<query:WORDS>THING(什么|吗|没有|没)",
            "(我|我们)BEFORETOYOUSAYWHATEVER(关于|和)<query:WORDS>[有关]THING",
            "ABOUT<query:WORDS>THINGCOMMA(我|我们)BEFORETOYOUSAYWHATEVER",
            "(你还|你|还)记得[关于]<query:WORDS>THINGMA",
            "(你还|你|还)记得<query:(我|我们)WORDS(什么|哪个|哪里|哪儿|谁|多少|几)ANY?>",
            "你[还]知道<query:(我|我们)WORDS>MA",
            "你[还]知道<query:(我|我们)WORDS(什么|哪个|哪里|哪儿|谁|多少)>",
            "ASK(查[一]下|查查|看看|搜[一]下|搜索|翻翻|检查[一下])MEMORY[有没有]ABOUT<query:WORDS>THING",
            "MEMORY[有没有|有]ABOUT<query:WORDS>THING[吗|WHATEVER]",
            "ASK(回忆[一下]|回想[一下])[关于]<query:WORDS>THING",
            "<query:(我的|我们的|我家的)SHORT>ISWHAT",
            "<query:我叫>什么[名字]",
            "我是谁",
            "你[还][都](知道|记得)[我][的]WHATEVERANSWERMA?",
            "<query:我(住|工作)>在(哪里|哪儿|哪)",
            "(我|我们)[平时|一般|最|比较](喜欢|用|偏好|习惯用)(什么|哪个|哪种)<query:SHORT>",
            unless=r"(?:当时|小时候|我们第一次|那年|那天|那时候|相遇|见面|怎么用|怎么做)|记得(?:我|吗"
            r"|这个|它)?\s*(?:吗|么)?\s*[?？]*$",
        ),
        *ZH.rules(
            Intent.NEVER_MIND,
            "(算了|没事了|不用了|忘了吧|忘掉吧|当我没说)[COMMA(算了|忘了吧|不用了)][吧]",
        ),
        *ZH.rules(
            Intent.FORGET,
            "ASK(忘掉|忘记)(THIS|一切|所有的?[事情|事|东西]|我刚才说的[话]|我说的话)[吧]",
            "ASK把THIS[都](忘掉|忘了|忘记)[吧]",
        ),
        *ZH.rules(
            Intent.FORGET,
            "ASK[把][我]BEFORE[TOLD]ABOUT<query:WORDS>THINGALL[给我](DROP)[吧]",
            "ASK(忘掉|忘记|忘了)[我]BEFORE[TOLD]ABOUT<query:WORDS>THING[吧]",
            "ASK(忘掉|忘记)我BEFORETOLD<query:WORDS>[的话|的事|这件事|吧]",
            "ASK把<query:SHORT>[这件事|这事|的事情|的事]ALL[给](忘掉|忘了|忘记|忘光)[吧]",
            "ASK把<query:SHORT>从MEMORYALL[给](DROP|移除)[吧]",
            "ASK从MEMORY(ERASE)[关于|有关]<query:WORDS>THING",
            "ASK(ERASE)[你][所有][关于|有关|对]<query:SHORT>的(记忆|记录)",
            "ASK忘掉<query:SHORT>[这件事|这事|吧]",
            "ASK忘记<query:(我的|我们的)SHORT>[这件事|这事|吧]",
            "ASK(不用|不要|别)再?记(着|住|得)?<query:SHORT>了",
            unless=_ASIDE,
        ),
        *ZH.rules(
            Intent.CORRECT,
            "OPENER<text:[应该]是CLAUSECOMMA(而不是|不是)<query:SHORT>>",
            "OPENER<text:不是<query:CLAUSE>COMMA(而是|是|应该是)ANY>",
            "OPENER<text:<query:SHORT>[应该](是|在)CLAUSECOMMA(而不是|不是)ANY>",
            "OPENER<text:<query:SHORT>不是CLAUSECOMMA(而是|是|应该是)ANY>",
            "OPENER<text:<query:(我的|我们的)SHORT>(是|叫|在)ANY>",
            "OPENER<text:<query:我叫>ANY>",
            "<text:应该是CLAUSECOMMA(而不是|不是)<query:SHORT>>",
            "<text:我[已经][现在]不[再]用<query:SHORT>了COMMA(我)?(现在|改|已经|改成)[改|在]?用ANY>",
            unless=_ASKS,
        ),
        *ZH.rules(
            Intent.CORRECT,
            "ASK(更正|纠正|改正|订正)[一下](：|:|，|,)[\\s]<text:ANY>",
            "我[刚才](说|弄|搞)错了(：|:|，|,)<text:ANY>",
            "ASK(更新|修改|改正|纠正)[一下]MEMORY(：|:|，|,)<text:ANY>",
            "ASK(更新|修改|改正|纠正)[一下]ABOUT<query:SHORT>的(记忆|记录)(：|:|，|,)<text:ANY>",
            unless=_ASKS,
        ),
        *ZH.rules(
            Intent.REMEMBER,
            "ASK(NOTE|DONTFORGET)THIS[吧]",
            "ASKNOTE[吧|哦]",
            "ASK把THIS(NOTE|KEEPMEMORY)[吧]",
            unless=_ASKS,
        ),
        *ZH.rules(
            Intent.REMEMBER,
            "ASK把<text:WORDS>(NOTE|KEEPMEMORY)[吧]",
            "ASK(NOTE|DONTFORGET)COMMA<text:ANY>",
            "ASK记得COMMA<text:(我|要|用|每|以后|别|不要|先|在|把|周|星期|明天|后天|下周|今后)ANY>",
            "ASK(KEEPMEMORY|做[个]笔记|备忘一下|备注一下)COMMA<text:ANY>",
            "<text:CLAUSE>COMMAASK(记住|记一下|记下来|记下)(这点|这一点|这个|哦|啊|吧|一下)?",
            unless=_MUSING,
        ),
        *ZH.rules(
            Intent.REMEMBER,
            "<text:(以后|今后|往后|之后)COMMA[我们|你|写代码|提交]DIRECTIVEANY>",
            "<text:(从现在开始|从现在起|从今以后|从今往后|从今天起|从今天开始)COMMAANY>",
            unless=_ASKS + "|再说|(?:怎么|如何|什么|会不会)",
        ),
        *ZH.rules(
            Intent.LIST,
            "ASK(列出|列一下|显示|看看|查看)[当前|这里的|所有的|所有|全部][目录[下"
            "|里]的?][的][所有]文件[列表]",
            "[这里|当前目录|目录里|项目里][都]有(哪些|什么)文件",
            "ASK(列出|看看|查看|显示)\\s*<path:PLACE>\\s*(里|下|目录|目录下|里面|中)[的][所有]文件",
            "ASK(找|查找|找出|找到|列出)[所有][的]\\s*<query:GLOB>\\s*[的]?[文件]",
        ),
        *ZH.rules(
            Intent.READ,
            "ASK(读取|读一下|读|看一下|看看|看|打开|显示|查看一下|查看"
            "|展示)[文件]\\s*<path:PATH>\\s*[文件][的内容]",
        ),
        *ZH.rules(
            Intent.SEARCH,
            "ASK在(代码|项目|文件|\\s*<path:PLACE>\\s*)[里面|里|中]?(搜索|查找|搜一下|搜|找"
            "|找一下)\\s*<query:ANY>",
            "ASK(搜索一下|搜索|搜一下|查找|grep)[代码][里的|中的]?\\s*<query:ANY>",
        ),
        *ZH.rules(Intent.RUN, "ASK(运行|执行)[命令]\\s*`WORDS`"),
        *ZH.rules(
            Intent.HELP,
            "(你|您)(能|会|可以)(做|干)[些](什么|啥)",
            "帮助|怎么用|你是谁|(你|您)有什么功能",
        ),
        *ZH.rules(Intent.HELLO, "你好[呀|啊]|您好|嗨|嘿|哈喽|早上好|早|下午好|晚上好|大家好"),
        *ZH.rules(Intent.THANKS, "谢谢[你|您|啦]|多谢|感谢|非常感谢"),
        *ZH.rules(Intent.BYE, "再见|拜拜|晚安|回头见|明天见"),
    ),
)  # fmt: skip
