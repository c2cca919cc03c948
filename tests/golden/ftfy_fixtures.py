"""Makes what train/text/src/ftfy is tested against, with the real ftfy, and its table of HTML entities.

    python tests/golden/ftfy_fixtures.py             (in the environment of README.md; only ftfy is needed)

`cases.json` holds texts and what `ftfy.fix_text` makes of them; `every_character.txt` digests of every character of Unicode
in two places; `badness.json` digests of what looks bad among all pairs of the characters that mojibake consists of, with
neighbours; `entities.txt` (beside the code) the names that ftfy knows.
"""

import hashlib
import json
import pathlib
import re

import ftfy
from ftfy.badness import MOJIBAKE_CATEGORIES, is_bad
from ftfy.chardata import CHARMAP_ENCODINGS, HTML_ENTITIES, UTF8_CLUES

TEXT = pathlib.Path(__file__).parents[2] / "train/text"
OUT = TEXT / "tests/data/ftfy"

SENTENCES = """
It’s “fine” – isn’t it? … “No,” she said — ‘never’.
Señor, ¿qué tal? ¡Él vivió en España, años atrás!
L’été où ça commença : « cœur » et œuvre, à la mode, déjà vu
Falsches Üben von Xylophonmusik quält jeden größeren Zwerg
Às vezes vou àquele café em São Paulo, não é?
Příliš žluťoučký kůň úpěl ďábelské ódy
Zażółć gęślą jaźń, łódź i źdźbło
Árvíztűrő tükörfúrógép
Pijamalı hasta yağız şoföre çabucak güvendi, İstanbul
Glāžšķūņa rūķīši dzērumā čiepj Baha koncertflīģeļu vākus
Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą
Съешь ещё этих мягких французских булок, да выпей чаю
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία
Blåbærsyltetøy, Ångström og smørrebrød
Þórður á næturvakt, ð og æ
דג סקרן שט בים מאוכזב
نص حكيم له سر قاطع
ऋषियों को सताने वाले दुष्ट राक्षसों
ไทยแลนด์ สวัสดี
いろはにほへと、日本語
天地玄黄宇宙洪荒
키스의 고유조건은
Naïve 😀 💩 👩‍👩‍👧 ✔ ☺ ™ © ½ ²
Box ├──┤ ░▒▓ ╔═╗ √2 ≈ 1.41 ± ∞
no-break\u00a0space, soft\u00adhyphen, 25\u00a0€, 3\u00a0°C
"""

# One mistake, several, and text that only looks odd.
CASES = [
    "", " ", "\n", "plain text, nothing to do\n", "tabs\tand\x0cform feeds stay", "two\n\nparagraphs\n",
    # single mistakes
    "âœ” done", "cafÃ©", "c’est lÃ que", "de lÃ  Ã  ici", "Ã la mode", "Ã quele dia", "Ã s vezes", "fÃ cil",
    "mÃ¼de", "l’Ã©tÃ©", "he wouldnÃ¢â‚¬â„¢t go", "couldn‚Äôt", "rue de l'HÃ´tel, GenÃ¨ve",
    "â€œ like this â€�", "â€œquotedâ€\x9d", "â€œ lost â€? and â€˜ one â€™", "RÃ©sumÃ?", "Ã� la carte", "\ufffd", "é\ufffd", "a\x1aÃ©",
    "ãƒ†ã‚¹ãƒˆ", "ðŸ˜€ ðŸ’©", "ÐŸÑ€Ð¸Ð²ÐµÑ‚", "РџСЂРёРІРµС‚", "Î•Î»Î»Î·Î½Î¹ÎºÎ¬", "Ø§Ù„Ø³Ù„Ø§Ù…", "×©×œ×•×", "à¤¹à¤¿à¤¨à¥à¤¦à¥€",
    "├⌐", "ΓÇ£quotedΓÇ¥", "√©t√©", "â–â–", "Â© 2024 Â® Â£5 Â°", "5Â\u00a0000 Â½", "10 Â ", "end. Â ", "a Â b", "Â start",
    "ÂÂÂÂ©", "ÃÂ©", "Ã‚Â©", "Ãƒâ€šÃ‚Â©", "í\xa0½í¸\x80", "Ã©À\x80", "Ã©À\n", "Ã©À", "Ã©í\xa0½í°\n", "Ã©í", "Ã©í\x9f\xbf",
    "\x91quoted\x92 \x93double\x94 \x96 \x97 \x85 \x80", "\x81\x8d\x8f\x90\x9d", "é\x85", "caf\x8e", "naïve\x99 日本",
    "вЂ™ вЂњ вЂќ", "Р’ СЃ", "ГўВЂВ™s", "ГўВЂВ\n", "β€™", "ā€™", "Ļoti Ć©", "œa œ1 œ", "É° À°", "×²", "à² à³", "‚Äì ‚âà ‚óè",
    # mixed encodings, and text that only looks odd
    "Ã© and 日本 and â€™", "日本Ã©日本", "é Ã© √©", "naïve â€“ 中文 â€“ Ð¸", "Ã©Ã¨Ãª日", "ÑÐ¸日 ðŸ˜€日", "€Ã©日",
    "(ò_ó) ┻━┻ ¯\\_(ツ)_/¯", "Zoë's naïve façade", "ÅNGSTRÖM", "MÉXICO ™ ® ©", "IKEA® Å", "10 µm ± 2 °C", "C'est là… «oui»",
    "LE MARCHÉ…", "\"NIÑOS\" 1º 2ª", "Ü» é”x", "Ë®", "ĳ Ã", "Ãê", "├ ┤",
    # entities
    "&lt;tag&gt;", "&amp;lt;", "&amp;amp;amp;", "&Ascr;da &Hfr;opper", "&check;", "Zo&euml; ZO&EUML;",
    "GRO&SZLIG;", "&auml; &Auml; &AUML; &aUML;", "&nbsp;x&NBSP;y", "&copy 2024", "&notit; &not; this&not that",
    "&#233; &#xE9; &#XE9; &#xe9", "&#0; &#13; &#1;x&#127;x&#128;&#x9d;", "&#xD800; &#x110000; &#99999999999999999999999;",
    "&#59; &#x3b; &semi;", "&#12a; &#x; &#; &;", "&#xFFFE;&#x1FFFF;&#xFDD0;|", "&CounterClockwiseContourIntegral;", "&bne; &NewLine;&Tab;",
    "&rsquo;quoted&lsquo; &ldquo;double&rdquo; &hellip;", "&lowbar;ã\x83\x84&lowbar;", "&ATILDE;&SUP2;", "&Atilde;&copy;",
    "&#195;&#169;", "&FFILIG; &ffilig; &IJLIG;", "&amp;", "&amp", "&aaaaaaaaaaaaaaaaaaaaaaaa; &aaaaaaaaaaaaaaaaaaaaaaaaa;", "&&amp;;",
    "&am&#112;; &#5&#55;;", "&lt;p&gt;\n<p>\n&lt;p&gt;\n", "a < b &amp; c", "&lt;\n&amp;\n<b>\n&amp;\n", "&amp;\na &lt;b\nx &amp; y",
    # letters, quotes, breaks, controls
    "ﬁeﬆa eﬃgy ﬂow", "ĳs Ĳs ŉ Ǆ ǅ ǆ Ǉ ǈ ǉ Ǌ ǋ ǌ Ǳ ǲ ǳ ﬀ ﬁ ﬂ ﬃ ﬄ ﬅ ﬆ", "æ Œ ŒUVRE ﬓ ﬔ", "Ｆｕｌｌ　ｗｉｄｔｈ", "ｶﾀｶﾅ ｶﾞ ﾊﾟ ￥１００ ￣ ￨ ﾡￂ ＆ａｍｐ；",
    "‘a’ ‚b‛ “c” „d‟ ʼe′ ″f «g» ‹h›", "a\r\nb\rc\r\r\nd\n\re", "a\u2028b\u2029c\x85d", "\r", "\r\n", "x\x0by",
    "\x1b[31;42mred on green\x1b[0m", "\x1b[m\x1b[1;2;;H\x1b[", "\x1b[12\x1b[1m", "\x1b[١٢m \x1b［１ｍ", "\x1b]0;title\x07", "\x1b\x01[m",
    "\x00\x01\x08\x0e\x1f\x7f|\x9f", "\ufeffstart \ufeffmid", "\ufff9a\ufffab\ufffb\ufffc", "\u206a\u206f\u200b\u200d\u200e\u202a\u2060",
    # composition
    "e\u0301 a\u0308 A\u030a n\u0303", "a\u0327\u0301 a\u0301\u0327", "\u1112\u1161\u11ab \uac00\u11a8", "\u212b \u2126 \u212a \u1f71", "\u0958 \u0344 \u0374",
    "\u0301 alone", "q\u0323\u0307 q\u0307\u0323", "か\u3099 ﾊ\u309a", "豈 \ufa10 \ufb1d", "e\x01\u0301", "<\u0338",
    # a novel, tweets, dirt
    "“It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.”\n",
    "“My dear Mr. Bennet,” said his lady to him one day, “have you heard—”\n“You want to tell me, and I have no objection to hearing it.”\n",
    "\u201cIt is a truth\u201d".encode().decode("cp1252", "replace"), "_Mr. Darcy_ . . . ‘Ah!’—and so on…\r\n\r\n",
    "RT @user: canâ€™t wait!! ðŸ˜\x8d #monday http://t.co/x?a=1&amp;b=2", "I &lt;3 u ♥ &hearts; 💔 ï»¿", "ã\x81\x8aã‚\x82ã\x81—ã‚\x8d wwww",
    "@x Â¡QuÃ© bueno! Â¿VerdÃ¡?", "P.S. Itâ\x80\x99s â\x80¦ &#8211; done", "\x1b[1mÃ©\x1b[0m &amp;eacute; ﬁn\u2028“x”\r\n",
    "<a href=\"?x=1&amp;y=2\">Ã©</a>\n&eacute;\n", "Ã\xa0\xa0Ã\u00a0", "name=JosÃƒÂ©&amp;city=MÃƒÂ¡laga", "Ｆｕｌｌ “ﬁ” &eacute; Ã© \x92 e\u0301\r",
]


def misread(text, encoding):
    return text.encode().decode(encoding, "replace")


def cases():
    yield from CASES
    for sentence in filter(None, SENTENCES.split("\n")):
        yield sentence
        for encoding in CHARMAP_ENCODINGS:
            yield misread(sentence, encoding)
        windows = misread(sentence, "sloppy-windows-1252")
        yield misread(windows, "sloppy-windows-1252")
        yield misread(misread(windows, "latin-1"), "sloppy-windows-1252")
        yield misread(sentence, "windows-1252")  # the bytes it lacks are lost
        yield misread(sentence, "windows-1252").replace("\ufffd", "?")
        yield windows.replace("\u00a0", " ")
        yield windows + " 日本 " + sentence
        yield sentence.encode("windows-1252", "replace").decode("latin-1")


def every_character():
    """What each character becomes between two letters, and after U+0345, which other marks precede: a digest for every 4,096."""
    for block in range(0, 0x110000, 0x1000):
        codes = [code for code in range(block, block + 0x1000) if not 0xD800 <= code < 0xE000]
        texts = (text for code in codes for text in (f"a{chr(code)}b", f"a\u0345{chr(code)}"))
        lines = "".join(ftfy.fix_text(text) + "\n" for text in texts)
        yield f"{block:06x} {hashlib.sha256(lines.encode()).hexdigest()[:16]}\n"


NEIGHBOURS = ["|", "a|", "Z|", " |", "a |", "!|", "é|", "®|", "²|", "Â|", "|a", "|1", "|_", "| ", "|é", "|®", "|¿", "|²", "|Ø°", "|Ù»", "|В", "|Ξ", "|ô"]


def badness():
    """For each character that some rule names, whether it and each of the others look bad, with every neighbour: a digest."""
    classes = re.compile("|".join(f"[{members}]" for members in [*MOJIBAKE_CATEGORIES.values(), *UTF8_CLUES.values()]))
    characters = [*"aZ ?-1", *filter(classes.match, map(chr, range(0x80, 0xD800))), "\uf8ff", "\ufb01", "\ufb02", "\ufffd"]
    digests = []
    for c in characters:
        texts = (n.replace("|", c + d) for d in characters for n in NEIGHBOURS)
        bits = "".join("01"[is_bad(text)] for text in texts)
        digests.append(hashlib.sha256(bits.encode()).hexdigest()[:16])
    return {"characters": "".join(characters), "neighbours": NEIGHBOURS, "digests": digests}


def main():
    assert ftfy.__version__ == "6.3.1"
    OUT.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps([text, ftfy.fix_text(text)]) for text in dict.fromkeys(cases()))
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")
    (OUT / "every_character.txt").write_text("".join(every_character()))
    (OUT / "badness.json").write_text(json.dumps(badness(), indent=0) + "\n")
    # Names of more than 24 letters are never looked up.
    names = sorted((name[1:-1], text) for name, text in HTML_ENTITIES.items() if len(name) <= 26)
    entities = (f"{name} {' '.join(f'{ord(c):X}' for c in text)}\n" for name, text in names)
    (TEXT / "src/ftfy/entities.txt").write_text("".join(entities))


if __name__ == "__main__":
    main()
