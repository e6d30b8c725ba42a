"""What the embedded provider understands: a table of things people say, and of what must not trigger."""

from __future__ import annotations

import pytest

from nacre.providers.embedded.parse import parse_message
from nacre.providers.embedded.phrases import Intent

REMEMBER_EN = [
    ("remember that I prefer tabs", "I prefer tabs"),
    ("Remember: the demo is on Friday", "the demo is on Friday"),
    ("Please remember my dog is called Rex.", "my dog is called Rex"),
    ("please keep in mind that I prefer tabs", "I prefer tabs"),
    ("bear in mind that the office closes at six", "the office closes at six"),
    ("don't forget: the demo is on Friday", "the demo is on Friday"),
    ("Don’t forget that we deploy on Tuesdays", "we deploy on Tuesdays"),
    ("do not forget to run the linter before pushing", "run the linter before pushing"),
    ("remember to use pnpm", "use pnpm"),
    ("remember, never push on Fridays", "never push on Fridays"),
    ("I'd like you to remember that Bob owns billing", "Bob owns billing"),
    ("I want you to remember I am allergic to nuts", "I am allergic to nuts"),
    ("Can you remember that I use vim?", "I use vim"),
    ("could you please make a note that staging is at 10.0.0.4?", "staging is at 10.0.0.4"),
    ("Hey nacre, could you please remember that our API lives in api/, thanks!", "our API lives in api/"),
    ("for future reference, the dashboard is grafana.example.org", "the dashboard is grafana.example.org"),
    ("from now on use pnpm", "from now on use pnpm"),
    ("From now on, please answer in French.", "From now on, please answer in French"),
    ("going forward, write tests first", "going forward, write tests first"),
    ("in future, always squash commits", "in future, always squash commits"),
    ("call me Ana from now on", "call me Ana from now on"),
    ("save to memory: Ana leads the team", "Ana leads the team"),
    ("add that Ana leads the team to your memory", "Ana leads the team"),
    ("I like short answers, please remember that", "I like short answers"),
    ("My name is Ana. Please remember that.", "My name is Ana"),
    ("by the way, keep in mind we have no CI on weekends", "we have no CI on weekends"),
    ("note to self: renew the certificate", "renew the certificate"),
    ("Remember this:\n- tabs\n- no semicolons", "- tabs\n- no semicolons"),
]
REMEMBER_ZH = [
    ("记住我喜欢用制表符", "我喜欢用制表符"),
    ("请记住：周五有演示", "周五有演示"),
    ("请记一下周五要演示", "周五要演示"),
    ("记一下，我的狗叫Rex。", "我的狗叫Rex"),
    ("帮我记下来：服务器在 10.0.0.4", "服务器在 10.0.0.4"),
    ("麻烦你记住我对花生过敏", "我对花生过敏"),
    ("别忘了周五有演示", "周五有演示"),
    ("不要忘记我们周二部署", "我们周二部署"),
    ("记得用 pnpm", "用 pnpm"),
    ("以后都用 pnpm", "以后都用 pnpm"),
    ("以后请用中文回答", "以后请用中文回答"),
    ("从现在开始，所有提交信息用英文", "从现在开始，所有提交信息用英文"),
    ("从今以后不要用分号", "从今以后不要用分号"),
    ("你能记住我用 vim 吗？", "我用 vim"),
    ("能不能帮我记一下账单由小李负责？", "账单由小李负责"),
    ("请把部署密钥在保险库里记下来", "部署密钥在保险库里"),
    ("我想让你记住我叫安娜", "我叫安娜"),
    ("对了，记住我们周末没有 CI", "我们周末没有 CI"),
    ("我喜欢简短的回答，记住这一点", "我喜欢简短的回答"),
    ("我叫安娜。请记住。", "我叫安娜"),
    ("你好，请记住我是后端工程师，谢谢！", "我是后端工程师"),
    ("记录一下：服务器换了", "服务器换了"),
    ("请保存：我的时区是 UTC+8", "我的时区是 UTC+8"),
    ("存到记忆里：安娜是组长", "安娜是组长"),
]
SUBJECTS_EN = [
    (Intent.FORGET, "forget what I said about tabs", "tabs"),
    (Intent.FORGET, "please forget everything you know about my old job", "old job"),
    (Intent.FORGET, "Forget my birthday.", "birthday"),
    (Intent.FORGET, "you can forget about the old server", "old server"),
    (Intent.FORGET, "forget that I said I like spaces", "I like spaces"),
    (Intent.FORGET, "delete my phone number from your memory", "phone number"),
    (Intent.FORGET, "remove the memory about the outage", "outage"),
    (Intent.FORGET, "could you forget what I told you about Bob?", "Bob"),
    (Intent.FORGET, "stop remembering my address", "address"),
    (Intent.RECALL, "what do you know about the deploy?", "deploy"),
    (Intent.RECALL, "What do you remember about Ana", "Ana"),
    (Intent.RECALL, "tell me what you know about billing", "billing"),
    (Intent.RECALL, "do you remember my editor?", "editor"),
    (Intent.RECALL, "do you still remember which editor I use?", "editor I use"),
    (Intent.RECALL, "can you remember my name?", "name"),
    (Intent.RECALL, "what did I say about the outage?", "outage"),
    (Intent.RECALL, "What’s my name?", "name"),
    (Intent.RECALL, "which editor do I use?", "editor"),
    (Intent.RECALL, "remind me what our release day is", "release day"),
    (Intent.RECALL, "search your memory for staging", "staging"),
    (Intent.RECALL, "have I told you about my dog?", "dog"),
    (Intent.RECALL, "what do you know about me?", "me"),
    (Intent.RECALL, "what do you remember?", "me"),
    (Intent.RECALL, "who am I?", "me"),
    (Intent.RECALL, "did I mention the budget?", "budget"),
    (Intent.WHEN, "when did I tell you about the outage?", "outage"),
    (Intent.WHEN, "When did I say that we deploy on Tuesday?", "we deploy on Tuesday"),
    (Intent.WHEN, "do you remember when I mentioned the demo?", "demo"),
    (Intent.WHEN, "how long ago did I mention the migration?", "migration"),
]
SUBJECTS_ZH = [
    (Intent.FORGET, "忘掉关于制表符的事", "制表符"),
    (Intent.FORGET, "请忘记我说的关于部署的话", "部署"),
    (Intent.FORGET, "把我的生日忘掉", "生日"),
    (Intent.FORGET, "关于旧服务器的事都忘了吧", "旧服务器"),
    (Intent.FORGET, "请把我的电话从记忆里删掉", "电话"),
    (Intent.FORGET, "删除关于小李的记忆", "小李"),
    (Intent.FORGET, "忘掉我的旧工作", "旧工作"),
    (Intent.RECALL, "你知道关于部署什么", "部署"),
    (Intent.RECALL, "你还记得我的编辑器吗？", "编辑器"),
    (Intent.RECALL, "关于部署你知道些什么？", "部署"),
    (Intent.RECALL, "你记得关于演示的事吗", "演示"),
    (Intent.RECALL, "我的名字是什么？", "名字"),
    (Intent.RECALL, "我用什么编辑器？", "编辑器"),
    (Intent.RECALL, "查一下记忆里有没有关于预发布环境的内容", "预发布环境"),
    (Intent.RECALL, "我说过关于小李的什么？", "小李"),
    (Intent.RECALL, "你对小李有什么印象？", "小李"),
    (Intent.RECALL, "你知道我的生日吗", "生日"),
    (Intent.RECALL, "你记得什么？", "我"),
    (Intent.RECALL, "我叫什么名字？", "我叫"),
    (Intent.WHEN, "我上次什么时候提到预算？", "预算"),
    (Intent.WHEN, "我什么时候说过部署失败", "部署失败"),
    (Intent.WHEN, "我是什么时候告诉你演示的事的？", "演示"),
    (Intent.WHEN, "你还记得我哪天提到过迁移吗", "迁移"),
]
CORRECTIONS = [
    ("actually it's Tuesday, not Monday", "Monday", "it's Tuesday, not Monday"),
    ("no, my name is Ana", "name", "my name is Ana"),
    ("No. My name is Ana.", "name", "My name is Ana"),
    ("that's wrong, my editor is helix", "editor", "my editor is helix"),
    ("Actually, the demo is on Tuesday, not on Monday", "demo", "the demo is on Tuesday, not on Monday"),
    ("no, it's not Monday, it's Tuesday", "Monday", "it's not Monday, it's Tuesday"),
    ("sorry, I meant Tuesday, not Monday", "Monday", "I meant Tuesday, not Monday"),
    ("no, I use pnpm, not npm", "npm", "I use pnpm, not npm"),
    ("I no longer use vim, I use helix now", "vim", "I no longer use vim, I use helix now"),
    ("correction: the demo is on Tuesday", "demo", "the demo is on Tuesday"),
    ("update your memory: Bob left the team", "Bob left the team", "Bob left the team"),
    ("No, I'm Ana, not Anna", "Anna", "I'm Ana, not Anna"),
    ("my name is Ana, not Anna", "name", "my name is Ana, not Anna"),
    ("错了，会议在三点，不是两点", "会议", "会议在三点，不是两点"),
    ("不对，是周二不是周一", "周一", "是周二不是周一"),
    ("不对。是周二，不是周一。", "周一", "是周二，不是周一"),
    ("不对，我的名字是安娜", "名字", "我的名字是安娜"),
    ("其实不是周一，是周二", "周一", "不是周一，是周二"),
    ("你记错了，演示是周二，不是周一", "演示", "演示是周二，不是周一"),
    ("应该是周二，而不是周一", "周一", "应该是周二，而不是周一"),
    ("更正：演示在周二", "演示", "演示在周二"),
    ("我说错了，部署在周三", "部署", "部署在周三"),
    ("我不用vim了，现在用helix", "vim", "我不用vim了，现在用helix"),
]
FILES = [
    ("read README.md", Intent.READ, "", "README.md"),
    ("show me src/main.py", Intent.READ, "", "src/main.py"),
    ("please open the file `my notes.txt`", Intent.READ, "", "my notes.txt"),
    ("can you show me the contents of pyproject.toml?", Intent.READ, "", "pyproject.toml"),
    ("list files", Intent.LIST, "", ""),
    ("list the files in src", Intent.LIST, "", "src"),
    ("find *.py", Intent.LIST, "*.py", ""),
    ("search for TODO", Intent.SEARCH, "TODO", ""),
    ("search for TODO in src/", Intent.SEARCH, "TODO", "src/"),
    ("grep parse_block", Intent.SEARCH, "parse_block", ""),
    ("读一下 README.md", Intent.READ, "", "README.md"),
    ("看看src/main.py的内容", Intent.READ, "", "src/main.py"),
    ("列出文件", Intent.LIST, "", ""),
    ("找所有 *.py 文件", Intent.LIST, "*.py", ""),
    ("搜索 TODO", Intent.SEARCH, "TODO", ""),
    ("在 src/ 里搜索 TODO", Intent.SEARCH, "TODO", "src/"),
]
SMALL_TALK = [
    ("hi!", Intent.HELLO),
    ("Thank you so much", Intent.THANKS),
    ("bye", Intent.BYE),
    ("what can you do?", Intent.HELP),
    ("never mind", Intent.NEVER_MIND),
    ("forget it", Intent.NEVER_MIND),
    ("run `ls -la`", Intent.RUN),
    ("run ls -la", Intent.RUN),
    ("run ls", Intent.RUN),
    ("run git status", Intent.RUN),
    ("please execute touch x", Intent.RUN),
    ("你好", Intent.HELLO),
    ("谢谢", Intent.THANKS),
    ("再见", Intent.BYE),
    ("你能做什么？", Intent.HELP),
    ("算了", Intent.NEVER_MIND),
]
UNTOUCHED = [
    "I remember when we met",
    "remember the Alamo?",
    "Remember the Alamo!",
    "remember when we shipped v1?",
    "remember that time in Paris?",
    "I can't remember how to rebase",
    "I'll remember that",
    "do you remember how it felt when we met?",
    "do you remember me?",
    "will you remember me?",
    "can you remember things?",
    "as far as I remember, it was blue",
    "can you forget about style for a second and fix the bug",
    "forget about the tests for now",
    "forget the tests, just ship it",
    "I forgot my password",
    "I always forget the syntax of sed",
    "don't forget about me",
    "write a function that remembers the last value",
    "the app should remember the window size",
    "How do I make git remember my password?",
    "no, the tests are still failing",
    "no, that's fine, not a problem",
    "it's a bug, not a feature",
    "actually, let's use the other approach",
    "actually the bug is in foo.py",
    "what is the capital of France?",
    "from now on what happens?",
    "read the docs",
    "find the bug in main.py",
    "search for cats on the web",
    "ls -la",
    "Remember, remember, the fifth of November",
    "please don't remember this",
    "别忘记",
    "show me how it works",
    "remind me to call Bob tomorrow",
    "change the port to 8080",
    "我记得我们第一次见面的时候",
    "还记得我们第一次见面吗",
    "我忘了密码",
    "忘记密码怎么办",
    "忘了带钥匙",
    "我记不住这么多名字",
    "记住了吗",
    "你记住了吗？",
    "我记住了",
    "以后再说",
    "以后有机会再试",
    "这是缺陷，不是功能",
    "不是这样的",
    "怎么让 git 记住密码？",
    "写一个能记住上次结果的函数",
    "法国的首都是哪里？",
    "先忘掉风格，把这个错误修好",
    "写一首诗",
    "记忆是什么？",
    "你记得我吗？",
    "看看天气",
    "今天天气不错",
]


@pytest.mark.parametrize(("said", "fact"), REMEMBER_EN + REMEMBER_ZH)
def test_a_request_to_remember_keeps_the_users_exact_words(said: str, fact: str) -> None:
    """P4: several-word natural phrasing in English and Chinese."""
    assert [(meaning.intent, meaning.text) for meaning in parse_message(said).requests] == [
        (Intent.REMEMBER, fact)
    ]


@pytest.mark.parametrize(("intent", "said", "subject"), SUBJECTS_EN + SUBJECTS_ZH)
def test_a_question_or_a_request_to_forget_yields_its_subject(
    intent: Intent, said: str, subject: str
) -> None:
    """P4"""
    assert [(meaning.intent, meaning.query) for meaning in parse_message(said).requests] == [
        (intent, subject)
    ]


@pytest.mark.parametrize(("said", "subject", "fact"), CORRECTIONS)
def test_a_correction_yields_what_is_wrong_and_the_users_words(said: str, subject: str, fact: str) -> None:
    """P4"""
    found = [(meaning.intent, meaning.query, meaning.text) for meaning in parse_message(said).requests]
    assert found == [(Intent.CORRECT, subject, fact)]


@pytest.mark.parametrize(("said", "intent", "subject", "path"), FILES)
def test_plain_file_requests_are_understood(said: str, intent: Intent, subject: str, path: str) -> None:
    found = [(meaning.intent, meaning.query, meaning.path) for meaning in parse_message(said).requests]
    assert found == [(intent, subject, path)]


@pytest.mark.parametrize(("said", "intent"), SMALL_TALK)
def test_small_talk_is_recognised(said: str, intent: Intent) -> None:
    assert [meaning.intent for meaning in parse_message(said).requests] == [intent]


@pytest.mark.parametrize("said", UNTOUCHED)
def test_what_is_not_clearly_a_request_triggers_nothing(said: str) -> None:
    """P4: it never pretends, and not acting is the safe side."""
    assert parse_message(said).requests == ()


@pytest.mark.parametrize(
    "said", ["forget everything", "forget that", "remember this", "忘掉一切", "记住这个"]
)
def test_a_request_without_a_subject_stays_without_one(said: str) -> None:
    [meaning] = parse_message(said).requests
    assert (meaning.text, meaning.query) == ("", "")


def test_two_requests_in_one_message_are_both_heard() -> None:
    heard = parse_message("Remember that I use vim. Also remember that I hate spaces.")
    assert [meaning.text for meaning in heard.requests] == ["I use vim", "I hate spaces"]
    assert not heard.has_rest


def test_what_stands_beside_a_request_is_known_as_not_understood() -> None:
    heard = parse_message("Remember that I use vim. Now write me a parser in Rust.")
    assert [meaning.text for meaning in heard.requests] == ["I use vim"]
    assert heard.has_rest


def test_a_pasted_document_or_code_is_not_read_as_commands() -> None:
    document = "\n".join(f"Line {number} of a text." for number in range(30)) + "\nRemember that I use vim."
    assert parse_message(document).requests == ()
    assert parse_message("Look at this:\n```\nremember that x = 1\n```").requests == ()


def test_the_table_is_as_large_as_it_claims() -> None:
    """Both languages are covered about evenly, and the traps are many."""
    spoken = [row[0] for row in REMEMBER_EN + REMEMBER_ZH + CORRECTIONS + FILES + SMALL_TALK]
    spoken += [row[1] for row in SUBJECTS_EN + SUBJECTS_ZH] + UNTOUCHED
    chinese = [said for said in spoken if any("\u4e00" <= sign <= "\u9fff" for sign in said)]
    assert len(set(spoken)) == len(spoken) >= 120
    assert len(UNTOUCHED) >= 30
    assert len(chinese) >= 60
