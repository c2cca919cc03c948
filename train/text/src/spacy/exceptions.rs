//! The exceptions of English: words that are kept whole or cut against the rules, such as `Mr.`, `do n't`, `10 a.m.`, `:-)`.
//!
//! Lists contain words separated by white space. A `+` marks a cut within a word.

use std::collections::BTreeMap;

/// (words, endings): each word is combined with each ending, with and without a capital, with and without the apostrophes.
const CONTRACTIONS: &[(&str, &str)] = &[
    ("i", "'m 'm+a"),
    ("i you he she it we they", "'ll 'll+'ve 'd 'd+'ve"),
    ("i you we they", "'ve"),
    ("you we they", "'re"),
    ("he she it", "'s"),
    ("who what when where why how there", "'s 'll 'll+'ve 're 've 'd 'd+'ve"),
    ("that this", "'s 'll 'll+'ve 'd 'd+'ve"),
    ("these those", "'ll 'll+'ve 're 've 'd 'd+'ve"),
    ("ca could do does did had may might must need ought sha should wo would", "n't n't+'ve"),
    ("could might must should would", "'ve"),
    ("ai are is was were have has dare", "n't"),
];

/// Results of [`CONTRACTIONS`] that are words of their own, and so not exceptions.
const WORDS: &str = "ill Ill its Its hell Hell shell Shell shed Shed were Were well Well whore Whore";

/// Other words that are cut.
const CUT: &str = "
    y'+all y+all how+'d+'y How+'d+'y not+'ve not+ve Not+'ve Not+ve can+not Can+not gon+na Gon+na got+ta Got+ta let+'s Let+'s
    c'm+on C'm+on °+c+. °+f+. °+k+. °+C+. °+F+. °+K+.";

/// Words without their last letter, with and without an apostrophe in its place, with and without a capital.
const DROPPED: &str = "doin goin nothin nuthin ol somethin lovin havin";

/// Words that are kept whole.
const WHOLE: &str = r"
    em 'em ll 'll nuff 'nuff ' '' 'S 's ‘S ‘s 'd 're 'Cause 'cause 'cos 'Cos 'coz 'Coz 'cuz 'Cuz 'bout
    and/or w/o ma'am Ma'am o'clock O'clock
    Mt. Ak. Ala. Ariz. Ark. Calif. Colo. Conn. Del. Fla. Ga. Ia. Id. Ill. Ind. Kan. Kans. Ky. La. Mass. Mich. Minn. Miss.
    N.C. N.D. N.H. N.J. N.M. N.Y. Neb. Nebr. Nev. Okla. Ore. Pa. S.C. Tenn. Va. Wash. Wis. D.C. Md. Mo. Mont.
    Jan. Feb. Mar. Apr. Jun. Jul. Aug. Sep. Sept. Oct. Nov. Dec.
    Adm. Bros. co. Co. Corp. Dr. Gen. Gov. Inc. Jr. Ltd. Messrs. Mr. Mrs. Ms. Ph.D. Prof. Rep. Rev. Sen. St.
    a.m. p.m. e.g. E.g. E.G. i.e. I.e. I.E. vs. v.s. ä. ö. ü.
    <space> \t \n — C++";

/// Faces: each pair of eyes is combined with each mouth, with a nose `-` and without.
const FACES: &[(&str, &str)] = &[(":", ") )) ))) ( (( ((( ] } / | * > 0 3 D O P X o p x"), (";", ") D"), ("8", ") D")];

/// Other emoticons.
const EMOTICONS: &str = r#"
    (: (-: (; (-; (-8 [: [-: ): )-: (o: :o) :() >:( >:o :1 :') :'-) :'( :'-( =) (= =] [= ]= =[ =( =/ =| =3 =D
    xD XD xDD XDD <3 <33 <333 </3 ^_^ ^__^ ^___^ -_- -__- ;_; @_@ ._. >.< >.> <.< \")
    v.v V.V v_v V_V o_o o_O O_o O_O 0_o o_0 0_0 o.o o.O O.o O.O 0.o o.0 0.0
    (^_^) (-_-) (._.) (>_<) (*_*) (¬_¬) (ಠ_ಠ) ಠ_ಠ ಠ︵ಠ ¯\(ツ)/¯ (╯°□°）╯︵┻━┻ ><(((*>"#;

/// Returns every exception with its tokens.
pub(super) fn all() -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    contractions(&mut all);
    add(&mut all, CUT.split_whitespace());
    for word in DROPPED.split_whitespace().flat_map(cases) {
        all.insert(format!("{word}'"), vec![format!("{word}'")]);
        all.insert(word.clone(), vec![word]);
    }
    for hour in 1..=12 {
        add(&mut all, ["am", "pm", "a.m.", "p.m."].map(|half| format!("{hour}+{half}")));
    }
    let faces = FACES.iter().flat_map(|(eyes, mouths)| mouths.split(' ').map(move |mouth| (eyes, mouth)));
    let faces = faces.flat_map(|(eyes, mouth)| [format!("{eyes}{mouth}"), format!("{eyes}-{mouth}")]);
    let whole = [WHOLE, EMOTICONS].into_iter().flat_map(str::split_whitespace).map(str::to_owned);
    let initials = ('a'..='z').map(|letter| format!("{letter}."));
    all.extend(faces.chain(whole).chain(initials).map(|word| (word.clone(), vec![word])));
    typographic(&mut all);
    all
}

/// Adds words that are cut at each `+`.
fn add(all: &mut BTreeMap<String, Vec<String>>, words: impl IntoIterator<Item = impl AsRef<str>>) {
    for word in words {
        let tokens: Vec<_> = word.as_ref().split('+').map(str::to_owned).collect();
        all.insert(tokens.concat(), tokens);
    }
}

fn contractions(all: &mut BTreeMap<String, Vec<String>>) {
    for (words, endings) in CONTRACTIONS {
        for word in words.split(' ').flat_map(cases) {
            let whole = endings.split(' ').map(|ending| format!("{word}+{ending}"));
            add(all, whole.flat_map(|text| [text.replace('\'', ""), text]));
        }
    }
    for word in WORDS.split(' ') {
        all.remove(word);
    }
}

/// Returns a word, and the word with a capital.
fn cases(word: &str) -> [String; 2] {
    [word.to_owned(), word[..1].to_ascii_uppercase() + &word[1..]]
}

/// Adds to each word with an apostrophe, `'`, the word with `’` instead.
fn typographic(all: &mut BTreeMap<String, Vec<String>>) {
    let curl = |text: &str| text.replace('\'', "’");
    let with = all.iter().filter(|(text, _)| text.contains('\''));
    let twins: Vec<_> = with.map(|(text, tokens)| (curl(text), tokens.iter().map(|t| curl(t)).collect())).collect();
    all.extend(twins);
}
