"""Makes the fixtures of train/text/tests/data/spacy with spaCy's own tokenizer for English.

    python tests/golden/spacy_tokens.py        (Python 3.11 with spacy==3.8.18 alone; no model is needed)

`cases.json` holds texts with their tokens. `exceptions.txt` pins the table of exceptions, and `every_character.txt` what
every character of Unicode does in several places: digests, for the tests make the same lines.
"""

import hashlib
import json
import pathlib

import spacy

OUT = pathlib.Path(__file__).parents[2] / "train/text/tests/data/spacy"

# Cases part at line ends. Each is taken as it stands here.
LINES = """
I'm you're he's she'd we'll they've it's that'll who's there'd've
I’m you’re he’s she’d we’ll they’ve it’s that’ll who’s there’d’ve
Im youre hes shed well theyve its thatll whos thered
I'M YOU'RE HE'S SHE'D WE'LL THEY'VE IT'S
don't Don't DON'T dont Dont can't cannot Cannot CANNOT won't shan't ain't isn't
don’t Don’t DON’T can’t won’t shan’t ain’t isn’t wouldn't've couldn’t’ve mustntve
gonna Gonna GONNA gotta let's Let’s lets y'all yall Y'all how'd'y not've c'mon C’mon
could've would’ve shouldve I'd've I’ll’ve Im'a I'ma i'ma
goin' doin’ nothin somethin' ol' lovin' havin’ 'em ’em 'nuff ’cause 'Cause 'bout 'til 'twas ’tis
o'clock O’clock ma'am Ma’am rock'n'roll d'accord l'homme O'Brien
the dog's the dogs' James's the DOG'S the dog’S Jones’ 's 'S ’s ‘s
Ill Its Hell Shell Shed Were Well ill its hell shell
Mr. Mrs. Ms. Dr. Prof. St. Jr. Sen. Rev. Gen. Messrs. Mt. Inc. Ltd. Co. Corp. vs. v.s.
"Mr. Darcy," (Dr. Watson) hello/Mr. the-Mr. Mr.'s Mr.Smith Mr.-like x=Dr.
U.S. U.S.A. U.K. u.s. D.C. N.Y. Ph.D. e.g. i.e. E.g. I.E. etc. cf. a.m. P.M. J. R. R. Tolkien J.R.R. A.B.
Jan. Feb. Mar. Apr. May. Jun. Jul. Aug. Sep. Sept. Oct. Nov. Dec. Mon. Tues.
Ala. Ariz. Calif. Fla. Ill. Ind. Mass. Okla. Wash. Pa. Va. Tex.
a. b. z. A. Z. ä. ö. ü. Ä. é. 1. 10. I. aa. AA. Aa. aA.
(a) a) (b). [c]; {d}, <e>
:) :-) :( :-( ;) ;-) :D XD xD :P :-P :o :/ :| :* :3 =) =D <3 </3 8) 8-D ^_^ -_- o_O O.o @_@ v.v T_T
hello:) hello:-( (hello:) :):) :(:( :-):-) ):( :)) :))) :)))) ((: :'( :') >:( ;D. :P! <3<3 xD, (^_^) (-_-)! ¯\\(ツ)/¯ (╯°□°）╯︵┻━┻ ಠ_ಠ ><(((*>
10am 10pm 10 a.m. 10a.m. 12p.m. 13am 10.30p.m. 10:30am 1am. 1am, (1am) 9-5pm 7.30 7:30 07h30
http://example.com https://www.example.com/a/b?c=d&e=f#g www.example.com example.com. (example.com) "http://a.bc/d"
http://example.com:8080/x http://example.com:1 http://example.com:123456 ftp://user:pass@host.org/file.tar.gz
http://localhost http://127.0.0.1 http://8.8.8.8/x 192.168.0.1 172.15.0.1 172.16.0.1 223.255.255.254 224.0.0.1 8.8.8.0 8.8.8 8.8.8.8.8 1.2.3.4:80
http://ex_ample.com http://-a.com http://a-.com http://a..com http://a.b http://a.B http://A.BC http://a.bC http://日本.jp http://münchen.de
x://a.bc xy://a.bc x+y-z.1://a.bc é_1://a.bc x y://a.bc ://a.bc http:/a.bc http//a.bc http://http://a.bc
john@example.com john.smith+tag@ex-ample.co.uk mailto:a@b.com a@b a@b.c a@@b.cd @b.cd <a@b.cd> a@b.cd,e@f.gh a@b.cd/e@f
#hashtag #tag1#tag2 @name @name: @name's #1 No.1 №1 &c. AT&T R&D Q&A rock&roll C++ C# F# .NET Node.js node.js
RT @user: lol!!! sooo good... <3 #win http://t.co/AbC123 via @x
$5 $5.00 £5 €5 5€ 5$ US$5 5US$ C$10 10C$ A$1 $-5 -$5 $5m $5bn ¥100 ₹100 100₹ ￥5 ¢5 5¢
5km 5 km 5km² 5m/s 5km/h 5kmh 60mph 3ft 3in 6ft2 10kg 5mg 5µg 5g 5t 5T 5K 5k 50% 50%. 50%, %50 5‰ 5°C 5°C. 5°F. 5°c. 20°. °C. °k. 5m. 5m, (5m) 5mbar 5кг 5км/ч 5тб 5тбكم 5كم 5اكواب x5m 5xm
-5 +5 5- 5+ --5 5-- ++5 +-5 -+5 1+1 1-1 1*1 1^1 1/1 1=1 1<2 a+b a-b a*b a/b a=b a<b a>b a:b 1:a a:1 1-a a-1 1--1 1+-1 1^-1 2**3
1,000 1,000.50 1.000,50 1,2 a,b a,1 1,a a,,b ,a a, 3.14 .5 5. 1.2.3 1..2 1...2 v1.2.3 2nd 1990s '90s ’90s 1990-2000 1990–2000 555-1234 (555)123-4567
well-known rock-n-roll a--b a---b a----b a—b a——b a———b a–b a––b a~b a~~b -a a- --a a-- — – - -- --- well-
..a a.. a..b a...b a....b .. ... .... ..... … …… ……… a…b a……b …a a… a…. a.… .a .a. .a.b a.b a.B A.b A.B a."b a.'B "a".b 1.a a.1
"a" 'a' “a” ‘a’ «a» „a“ ‚a‘ `a` ´a´ ''a'' "'a'" ‘“a”’ "a".' "a," "a". "a."
(a) [a] {a} <a> ((a)) ([a]) (a). (a), a(b) a[b] a{b} a<b> (a)(b) a) (a ) (
a! a? a!! a?? a?! ¿a? ¡a! a; a: a, a* *a* _a_ __a__ a_b #a# &a& &amp; a&b ~a ~a~ |a| a|b a\\b a/b/c /a/ // \\n \\t <space> <br> <br/> </p>
%a a% =a a= §a §5 +a a+ ^a a^ @a a@ $a a$ \\a |a `a
and/or w/o w/ he/she either/or n/a a/c 1/2 1/2a ½ 2½ x² x³ H₂O
日本語 日本語。 「日本」 日本、東京 日本-東京 日本.東京 한국어. 中文：中文 こんにちは！ カタカナー （日本）
Привет, мир! ёж. Ёж. Москва-река а.б А.Б а.Б Київ. ґ. Ґ.
αβγ. ΑΒΓ. Ωμέγα, ά-ώ א.ב עברית. שלום, عربي. سلام، نص؟ हिन्दी। हिन्दी. বাংলা। தமிழ். ไทย. ಕನ್ನಡ.
Ünïcödé naïve-café Ǆ. ǅ. ǆ. ʔ. ʔa.A ß.ẞ ſ.S ı.İ ﬁ.ﬂ Ａ.ａ ａ.Ａ ǅ-ǆ
👍 👍🏽 👍👍 👩‍👩‍👧 🇫🇷🇩🇪 ☺️ ❤️ a👍b 👍a a👍 👍. .👍 1👍 🏽 a🏽b © a©b ™ a™b ° a°b • ★ ♥ → a→b ⇒ ✓ ☃. 🤷‍♀️ 🧑🏿 🥲
e\u0301 cafe\u0301. a\u0301.B a\u0301,b \u0301 \u0301. soft\u00adhyphen zero\u200bwidth \u200b bom\ufeff \ufeffa \ufffd a\ufffdb \ue000 a\ue000. nul\x00 \x07a
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.
“My dear Mr. Bennet,” said his lady to him one day, “have you heard that Netherfield Park is let at last?”
"Oh! it's YOU, is it?"--he cried;--"I thought so ... didn't I?"
'You don't mean it!' said Mrs. Fezziwig. 'Ah, but I do,' said Mr. F----; 'five o'clock, No. 7--don't be late.'
CHAPTER I. _Loomings._ Call me Ishmael. Some years ago—never mind how long precisely—having little or no money...
Alice was beginning to get very tired of sitting by her sister on the bank,and of having nothing to do:once or twice
She said :"no way"...then left,didn't she?!I can't believe it.So sad :-(((.
omg im so tired rn,,,cant even...lol :'))) w/ u @ 9pm???!!! its ok tho <33333
£1,000,000.00(GBP)/$1.5m[approx.];50%-60% of $5-$10,e.g.this.That's"it".
"""

SPACES = [
    "", " ", "  ", "   ", "\n", "\n\n", "\t", " \n", "\n ", "\r\n", "a ", " a", "  a", "a  ", "a  b", "a   b", "a\nb", "a \nb",
    "a\n b", "a\n\nb", "a\tb", "a \t b", "\ta", "a\t", "a\r\nb", "a\u00a0b", "a \u00a0b", "\u00a0", "\u00a0\u00a0", "a\u2003b",
    "a\u3000b", "\u3000", "a\u2028b", "a\x0bb\x0cc", "a\x1cb\x1dc\x1ed\x1fe", "a\x85b", "a\u1680b", "a\u200bb", "a\u180eb", "a \u200b b",
    ": )", ":\n)", ":\u00a0)", "Mr .", "Mr  .", "Mr\n.", "let 's", "10 am", "10\nam", "a . b", "( :", "don 't", "(Mr.\n", " Mr. ",
    "hello/Mr. /Mr .", "' '", ": ) )", "a:) :b", "x: :)", "):) :(", "(: (: :)", "8 )8)", "a.m.\n", ". . .", "o . o.O",
]  # fmt: skip

# Of each exception and each pair of surroundings.
AROUND = [("(", ")"), ('"', '."'), ("/", "!"), ("a-", "'s"), ("", "...")]

# What stands around each character of Unicode: letters, digits, either case, a full stop, hyphens, addresses.
PLACES = "@ a@b @b a@ 1@2 1@ a@B a.@ @.a @. a@. A@A. 1@m a@'s a-@ @-a 1@a @@ (@) x@://a.bc a.bc:1@ a.b@ @.bc"


def tokens(tokenizer, text):
    return [token.text for token in tokenizer(text)]


def digest(lines):
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def cases(tokenizer):
    lines = LINES.strip("\n").split("\n")
    words = [word for line in lines[:-8] for word in line.split(" ")]
    around = [f"{l}{text}{r}" for i, text in enumerate(sorted(tokenizer.rules)) for l, r in [AROUND[i % len(AROUND)]]]
    glued = ["".join(around[i : i + 3]) for i in range(0, len(around), 60)]
    texts = [*lines, *words, *SPACES, *around[::5], *glued]
    return [{"text": text, "tokens": tokens(tokenizer, text)} for text in dict.fromkeys(texts)]


def exceptions(tokenizer):
    """The number and the digest of all exceptions but those of white space, which are tokens in any case."""
    rules = {text: tokenizer.rules[text] for text in sorted(tokenizer.rules) if not text.isspace()}
    lines = "".join("\t".join([text, *(token[spacy.symbols.ORTH] for token in rules[text])]) + "\n" for text in rules)
    return f"{len(rules)} {digest(lines)}\n"


def every_character():
    """A digest for every 4,096 characters. Each block has a tokenizer of its own, for it remembers all it has seen."""
    digests = []
    for block in range(0, 0x110000, 0x1000):
        tokenizer = spacy.blank("en").tokenizer
        codes = [code for code in range(block, block + 0x1000) if not 0xD800 <= code < 0xE000]
        lines = "".join("|".join(tokens(tokenizer, PLACES.replace("@", chr(code)))) + "\n" for code in codes)
        digests.append(f"{block:06x} {digest(lines)}\n")
    return "".join(digests)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    tokenizer = spacy.blank("en").tokenizer
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases(tokenizer))
    (OUT / "cases.json").write_text(f"[\n{lines}\n]\n")
    (OUT / "exceptions.txt").write_text(exceptions(tokenizer))
    (OUT / "places.txt").write_text(PLACES)
    (OUT / "every_character.txt").write_text(every_character())


if __name__ == "__main__":
    main()
