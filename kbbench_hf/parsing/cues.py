"""The words by which models say what counts: final or draft, rejected, repeated, none, refused.

Each is one expression over many languages. They are looked for in prose only, never inside a value.
"""

import re

from kbbench_hf.text.patterns import lazy_pattern


def _any(*alternatives: str) -> str:
    return "|".join(alternatives)


def _compiled(*alternatives: str) -> "re.Pattern[str]":
    return lazy_pattern(_any(*alternatives), re.IGNORECASE)


LINE = r"(?:^|(?<=\n))[ \t>#*_\-–—•\"'(\[【]{0,12}(?:\d{1,2}[.)]\s*)?[*_]{0,3}"
"""Where a line's words begin, after list markers and emphasis."""
SENTENCE = r"(?:^|(?<=[\n.!?:;。！？\ue000)\]}\"']))[ \t>#*_\-–—•\"'(]{0,12}"
"""Where a sentence's words begin."""
COLON = r"[*_\"')\]】]{0,4}[ \t]{0,3}(?:[:：=][*_]{0,3}|(?=\n)|(?=\ue000))"
"""What ends a label: a colon, the line, or the value itself."""
_ANSWER_NOUNS = (
    r"(?:answers?|outputs?|versions?|results?|responses?|repl(?:y|ies)|lists?|sets?|json|triples?|relations?|"
    r"extractions?|scores?|ratings?"
    r"|verdicts?|judge?ments?|decisions?|conclusions?|assessment|statements?|splits?|sub-?triples?|estimates?|"
    r"evaluations?|objects?|lines?)"
)
_FINAL_ADJECTIVES = (
    r"(?:final|finali[sz]ed|revised|corrected|correct|fixed|amended|updated|improved|definitive|refined|"
    r"cleaned(?:[- ]up)?|clean|better|new|last|overall|second|third"
    r"|actual|true|validated|verified|checked|polished|complete)"
)
FINAL = _compiled(
    # a label of its own: "Final:", "**Corrected output**", "Final answer is"
    rf"{LINE}(?:(?:so|thus|hence|therefore|now),?\s+)?(?:(?:here(?:['’]s| is| are)|this is|these are)\s+)?(?:(?:my|"
    rf"the|our|a)\s+)?"
    rf"{_FINAL_ADJECTIVES}(?:\s+(?:and|&)\s+\w+)?(?:\s+{_ANSWER_NOUNS}){{0,3}}(?:\s+(?:is|are|now|would be))?{COLON}",
    rf"{SENTENCE}(?:(?:my|the|our|here is (?:my|the))\s+)?(?:final|revised|corrected|amended|updated|"
    rf"fixed)(?:\s+{_ANSWER_NOUNS}){{1,2}}"
    rf"(?:\s+(?:is|are|now reads?|reads?|would be|should be))?{COLON}",
    rf"{SENTENCE}(?:final|revised|corrected|amended|updated|correction|fixed|revision)\s*[:：]",
    rf"{LINE}(?:final|corrected|revised)(?:\s+{_ANSWER_NOUNS})?\s*(?:[-–—=]>?|→)\s*",
    # numbered versions
    rf"{LINE}(?:attempt|version|try|pass|take|draft|round|iteration|revision|v\.?)\s*(?:no\.?\s*|#\s*)?(?:[2-9]|two"
    rf"|three)\b[^\n]{{0,40}}?{COLON}",
    rf"{LINE}(?:second|third|2nd|3rd)\s+(?:attempt|version|try|pass|take|draft|round|iteration)\b{COLON}",
    rf"{LINE}(?:after|upon|on)\s+(?:review|reflection|re-?checking|checking|verification|revision|correction|"
    rf"self-?check)\w*\b{COLON}",
    # German, Dutch, Scandinavian
    rf"{LINE}(?:die\s+|meine\s+|das\s+|mein\s+)?(?:endgültige?[rs]?|finale?[rs]?|korrigierte?[rs]?|"
    rf"verbesserte?[rs]?|überarbeitete?[rs]?|berichtigte?[rs]?|richtige?[rs]?)"
    rf"(?:\s+\w+){{0,2}}{COLON}",
    rf"{LINE}(?:endergebnis|endfassung|endantwort|korrektur|berichtigung|schlussantwort|letzte fassung|reinschrift|"
    rf"fazit|ergebnis|eindantwoord|definitie(?:f|ve)(?:\s+\w+)?"
    rf"|slutligt? svar|slutlig\w*(?:\s+\w+)?|rettelse|endeligt? svar|rättelse|correctie|"
    rf"gecorrigeerd\w*(?:\s+\w+)?){COLON}",
    # French, Spanish, Portuguese, Italian, Romanian, Catalan
    rf"{LINE}(?:la\s+|ma\s+|mi\s+|a\s+)?(?:réponse|version|résultat|liste|sortie|respuesta|versión|resultado|salida"
    rf"|resposta|versão|saída|lista|risposta|versione"
    rf"|risultato|răspuns|resposta)\s+(?:définitive?|finale?s?|corrigée?s?|révisée?s?|corregid[oa]s?|revisad[oa]s?|"
    rf"definitiv[oa]s?|corrigid[oa]s?|corrett[oa]|rivist[oa])"
    rf"(?:\s+(?:est|es|é|è))?{COLON}",
    rf"{LINE}(?:correction|corrigé|corrección|corregido|correção|corrigido|correzione|corretto|au propre|versión "
    rf"definitiva|definitivo|definitif|définitif|finalement|finalmente|infine){COLON}",
    # Slavic, Turkish, Hungarian, Finnish, Greek
    rf"{LINE}(?:окончательн\w+|итогов\w+|исправленн\w+|финальн\w+|остаточн\w+|виправлен\w+|ostateczn\w+|"
    rf"poprawion\w+|końcow\w+|konečn\w+|opraven\w+|finální|nihai|son|düzeltilmiş"
    rf"|végső|javított|lopullinen|korjattu|τελική|διορθωμένη)(?:\s+\w+)?{COLON}",
    rf"{LINE}(?:итого?|исправление|poprawka|korekta|oprava|düzeltme){COLON}",
    # Chinese, Japanese, Korean, Arabic, Hindi, Vietnamese, Indonesian
    rf"{LINE}(?:最终|最終|最后|最後|修正|更正|改正|訂正|正式|正确|正しい)[^\n:：]{{0,8}}{COLON}",
    rf"{LINE}(?:최종|수정|정정)[^\n:：]{{0,8}}{COLON}",
    rf"{LINE}(?:الإجابة النهائية|النهائي|النهائية|التصحيح|अंतिम[^\n:：]{{0,12}}|câu trả lời cuối cùng|đáp án cuối "
    rf"cùng|jawaban akhir|hasil akhir|koreksi){COLON}",
)
"""What announces the answer that holds."""
SECOND_THOUGHTS = _compiled(
    rf"{SENTENCE}(?:(?:but|hmm+|oh|ah|no|ok(?:ay)?|well|sorry|and)\b[,.!… ]{{0,4}})*(?:wait\b|hold on\b|hang on\b|"
    rf"actually\b|on (?:second|further|closer)\b|upon (?:re|further|closer)"
    r"|scratch that|strike that|correction\b|oops|my mistake|my bad|apologies|i apologi[sz]e|let me (?:correct|fix|"
    r"revise|redo|re-?consider|re-?check|re-?do|rephrase|rewrite|try again|re-?think|amend)"
    r"|i (?:made|have made|see) (?:a|an|one|my) (?:mistake|error)|i was (?:wrong|mistaken)|i (?:mis(?!s you)\w+|"
    r"overlooked|confused|mixed up|erred|got (?:this|that|it|one))|i (?:need|have|must|should) (?:to "
    r")?(?:correct|revise|fix|take (?:that|this|it) back)|i(?:['’]ll| will| would)? ?(?:take|withdraw|retract) "
    r"|i (?:now )?(?:correct|revise|amend|change) (?:my|the|this|that)|that(?:['’]s| is| was) (?:not (?:right|"
    r"correct)|wrong|a mistake|incorrect)|this is (?:wrong|not (?:right|correct))|not quite|rather[,:]"
    r"|on reflection|looking (?:at it )?(?:again|closer|more closely)|re-?reading|re-?checking|thinking (?:again|"
    r"about it)|after (?:a )?(?:second|closer|re|check|review|reflection|thinking|another)"
    r"|no[,:] (?:wait|that|this|the|it|rather|\d|\.\d)|edit[:：]|instead[,:]|better[,:])",
    rf"{SENTENCE}(?:moment(?: mal)?\b|halt\b|warte\b|doch nicht|stimmt nicht|ich korrigiere|korrektur\b|nein,|bei "
    rf"näherem|nach (?:erneuter|nochmaliger|genauerer)|entschuldigung|verzeihung|tatsächlich|eigentlich)",
    rf"{SENTENCE}(?:attend(?:s|ez)\b|en fait\b|non,|pardon\b|je (?:me )?corrige|après (?:réflexion|relecture|"
    rf"vérification)|à la réflexion|réflexion faite|espera\b|un momento\b|en realidad|perdón|me corrijo|pensándolo "
    rf"(?:bien|mejor)"
    r"|tras (?:revisar|releer)|al (?:revisar|releer)|corrijo|espere\b|na verdade|pensando (?:bem|melhor)|desculpe?|"
    r"corrigindo|aspetta\b|in realtà|ripensandoci|mi correggo|a ripensarci|wacht\b|bij nader inzien|eigenlijk|"
    r"vänta\b|vent\b)",
    rf"{SENTENCE}(?:подожди|стоп\b|нет,|на самом деле|исправ|поправка|czekaj|chwila\b|właściwie|po namyśle|počkat|"
    rf"vlastně|bekle|aslında)",
    rf"{SENTENCE}(?:等等|等一下|不对|不對|其实|其實|抱歉|重新(?:考虑|检查|看)|更正|仔细(?:看|想)|再想|待って|"
    rf"いや[、,]|訂正|すみません|やはり|よく(?:見|考え)|잠깐|아니[,요]|다시 (?:생각|확인|보니)|정정)",
)
"""What takes back what stands before it."""
ADDITIONS = _compiled(
    r"\b(?:also|too|add(?:ing|itionally|itional)?|missed|forgot|one more|another one|as well|plus|"
    r"furthermore|moreover|außerdem|auch|zusätzlich|aussi|également|en plus|también|además|também|além|anche|"
    r"inoltre)\b",
    r"还有|另外|补充|また|さらに|또한",
)
RETRACTIONS = _compiled(
    r"\b(?:wrong|mistake|incorrect|not (?:right|correct|true|supported|in the)|error|instead|should(?:n['’]t| "
    r"not)? (?:be|have)|take (?:that|it|this) back|falsch|fehler|faux|erreur|incorrecto|error|errado|erro|"
    r"sbagliat\w+|errore)\b",
    r"不对|错误|错了|間違|誤り|틀렸|неверно|ошиб",
)
DRAFT = _compiled(
    r"\b(?:draft|sketch|rough|prelim\w*|tentative\w*|candidates?|first (?:attempt|try|pass|version|guess|thought|"
    r"take|idea|draft|impression)|initial(?:ly)?|attempt|try|take|pass|brainstorm\w*|provisional|working (?:answer|"
    r"list|version)"
    r"|before (?:checking|correction|review)|(?:original|old|earlier|previous|raw) (?:answer|output|version|list|"
    r"score|verdict|triples)|thoughts?|thinking|reasoning|analysis|scratch\w*|unfiltered|intermediate|interim|at "
    r"first|1st (?:attempt|try|pass|version|draft)|version 1|v1|hypothes[ie]s|ideas?|possib(?:le|ilit\w+)|guess)\b",
    r"\b(?:entwurf|rohfassung|vorläufig\w*|erster? (?:versuch|entwurf|fassung|gedanke|idee)|kandidat\w*|versuch|"
    r"skizze|überlegung\w*|brouillon|ébauche|provisoire|première (?:version|tentative)|premier (?:essai|jet)|"
    r"candidats?|borrador|provisional|primer(?:a)? (?:intento|versión|borrador)"
    r"|candidat[oa]s|rascunho|provisóri[oa]|primeira (?:versão|tentativa)|bozza|provvisori[oa]|prim[oa] "
    r"(?:tentativo|versione|bozza|stesura)|concept|kladversie|voorlopig\w*|utkast|udkast|luonnos|szkic|wersja "
    r"robocza|koncept|návrh|taslak|черновик|набросок|предварительн\w+|перв\w+ (?:вариант|попытка)|чернетка)\b",
    r"草稿|初稿|初步|候选|候選|草案|下書き|仮の|候補|初步|第一(?:次|版)|초안|임시|후보|مسودة|मसौदा|bản nháp|draf\b",
)
"""In a heading: what stands under it was tried."""
REJECTED = _compiled(
    r"\b(?:not (?:included?|listed?|added?|extracted?|counted?|used|kept|output|stated|supported|valid|expressed|"
    r"mentioned|applicable|covered|chosen|selected)|left out|leav(?:e|es|ing) out|omit\w*|exclu(?:de|ded|des|ding|"
    r"sions?)|reject\w*|discard\w*|skip(?:ped|ping)?|drop(?:ped|ping)?|remov(?:e|ed|es|ing)|ignor(?:e|ed|ing)|"
    r"filtered out|dismiss\w*|rul(?:e|ed|es|ing) out|unsupported|invalid|wrong|incorrect|false (?:triples|"
    r"candidates)|implied only|considered|thrown out|crossed out|set aside)\b",
    r"\b(?:nicht (?:aufgenommen|enthalten|aufgeführt|genannt|übernommen|gezählt|berücksichtigt|belegt)|weggelassen|"
    r"ausgelassen|ausgeschlossen|verworfen|gestrichen|abgelehnt|ignoriert|falsch)\b",
    r"\b(?:non (?:inclus\w*|retenu\w*)|exclu\w*|omis\w*|écarté\w*|rejeté\w*|laissé\w* de côté|no (?:inclu\w+|"
    r"añad\w+)|excluid\w+|omitid\w+|descartad\w+|rechazad\w+|não inclu\w+|excluíd\w+|rejeitad\w+|omess\w+|escluso|"
    r"esclus\w+|scartat\w+|non inclus\w+)\b",
    r"\b(?:weggelaten|niet opgenomen|utelämnad\w*|исключ\w+|отброшен\w+|не включ\w+|pominięt\w+|odrzucon\w+|"
    r"vynechan\w+)\b",
    r"排除|未包含|没有包含|省略|不包括|未列入|舍弃|除外|含めていません|含めなかった|제외|포함하지 않",
)
"""In a heading: what stands under it was thrown away."""
REPEATED = _compiled(
    r"\b(?:ontolog(?:y|ies)|schema|signatures?|formats?|templates?|example|examples|e\.g|demonstration|"
    r"instructions?|entit(?:y|ies)(?: found| list| mentions?| types?)?|entities|concepts?|classes|types|nodes|"
    r"mentions?|scale|allowed|available|given|permitted|vocabulary|definitions?|legend|choices|options|possible "
    r"(?:values|answers|relations)|guidelines?|rules|task|prompt|pairs?|input|statement|claim|context|keywords|"
    r"question|query|rubric|criteria|note|notes|relation types|list of relations|relations? (?:of|in|from) the|"
    r"known relations|subjects|objects)\b",
    r"\b(?:ontologie|schéma|beispiel\w*|format|vorgabe\w*|entitäten|konzepte|erlaubte\w*|exemples?|entités|concepts"
    r"|ontología|ejemplos?|entidades|conceptos|formato|ontologia|exemplos?|conceitos|esempi[o]?|entità|concetti|"
    r"voorbeeld\w*|entiteiten|skala|échelle|escala|scala|онтология|пример\w*|сущности|przykład\w*|encje|příklad\w*|"
    r"entity list)\b",
    r"本体|示例|例子|例如|格式|实体|實體|概念|例：|例:|エンティティ|オントロジー|形式|예시|개체|형식",
)
"""In a heading: what stands under it was in the prompt."""
PRE_REJECT = _compiled(
    r"\b(?:no (?:he |lo )?(?:inclu\w+|añad\w+|list\w+|agreg\w+)|não (?:inclu\w+|adicion\w+)|n['’]ai pas (?:inclu\w*"
    r"|ajout\w*|retenu)"
    r"|non ho (?:inclus\w*|aggiunt\w*)|niet (?:opgenomen|toegevoegd))\b[^\n\ue000]{0,60}$",
    r"\b(?:(?:did|do|does|would|will|could|can|should)(?: not|n['’]t) (?:include|list|add|extract|count|use|keep|"
    r"output|write|give|choose|accept|state|support|say|mention|imply|be)|not (?:including|listing|adding|counting|"
    r"included|to be confused)|left out|leav(?:e|ing) out|omit\w*|exclud\w*|reject\w*|discard\w*|skip(?:ped|ping)?|"
    r"dropp(?:ed|ing)|remov(?:ed|ing)|ignor(?:ed|ing)|avoid(?:ed|ing)?|rul(?:ed|ing) out|instead of|rather than|"
    r"unlike|wrong(?:ly)?|incorrect(?:ly)?|would (?:be|have|get|need|give|make)|such as|for (?:example|instance)|"
    r"e\.g\.|tempt(?:ed|ing)|considered|(?:at first|initially|first) i|one (?:might|could|may)|might (?:also "
    r")?(?:think|say|add|expect|read)|could (?:also )?(?:be|say|add|read|write|have been)|a (?:reply|reader|model) "
    r"(?:might|could|may)|if\b[^\n]{0,200}\b(?:had|were|was|would|named?|said|stated|mentioned|included|spoke|gave)"
    r"|had (?:the|it|this)|in the (?:form|format)|as (?:in|requested)|of the form|like|similar to|"
    r"not)\s[^\n\ue000]{0,160}$",
    r"\b(?:nicht (?:aufgenommen|enthalten|aufgeführt)|weggelassen|ausgelassen|verworfen|wäre|hätte|würde|falls|wenn"
    r"|zum beispiel|z\.\s?b\.|etwa|statt|anstatt|laiss\w+ de côté|écart\w+|exclu\w+|serait|si le|par exemple|au "
    r"lieu|sería|excluid\w+|descart\w+|omit\w+|por ejemplo|en lugar|seria|por exemplo|em vez|sarebbe|scartat\w+|"
    r"per esempio|invece di|zou|bijvoorbeeld)\b[^\n\ue000]{0,160}$",
    r"(?:没有(?:包含|包括|列出)|排除|如果|例如|比如|而不是|たとえば|例えば|もし|除外|만약|예를 들어|если бы|"
    r"например|не включ)[^\n\ue000]{0,60}$",
)
"""Before a value, in its sentence: it is not the model's answer."""
POST_REJECT = _compiled(
    r"^[\s\"'`)*,;:–—-]{0,6}(?:(?:bewusst |absichtlich )?(?:weggelassen|ausgelassen|ausgeschlossen|verworfen|gestrichen"
    r"|nicht (?:aufgenommen|aufgeführt|übernommen)|weggelaten|niet opgenomen|を(?:除外|含め)|는 제외|은 제외))",
    r"^[\s\"'`)*,;:–—-]{0,6}(?:(?:but )?(?:it |this |that |which |he |she )?(?:is|are|was|were|has been|would be|"
    r"would have(?: been)?|could be|might be|will be|seems?|looks?)\s+(?:\w+ly\s+)?(?:not|n['’]t|wrong|incorrect|"
    r"false|rejected|excluded|omitted|dropped|discarded|removed|left out|unsupported|invalid|a mistake|too|"
    r"inaccurate|unstated|an? (?:error|example|mistake|over\w*)|only (?:if|implied)|ruled out|misleading)|(?:was|"
    r"were|is|are|do|does|did|would|could|can|has)n['’]t\b|(?:would|might|could) (?:be|have|get|only|need|mean|"
    r"apply|require|follow)|(?:does|do|did|would|can|could|will) not\b|(?:not (?:supported|stated|in|included|"
    r"correct|valid|mentioned|expressed|given|said|found|clear|certain|needed|right|explicit))\b|(?:rejected|"
    r"excluded|omitted|dropped|discarded|removed|unsupported|invalid|wrong|incorrect|no evidence|not)\b[.,;)]?(?:\s"
    r"|$)|✗|❌|✘|\?)",
    r"^[\s\"'`)*,;:–—-]{0,6}(?:(?:ist|sind|war|wäre|wird) (?:nicht|falsch|kein)|nicht (?:belegt|genannt|im|"
    r"enthalten)|falsch\b|wäre\b|würde\b|(?:est|serait|n['’]est) (?:faux|fausse|pas|incorrect)|serait\b|(?:es|"
    r"sería) (?:fals|incorrect)|no (?:está|se|es)\b|sería\b|seria\b|não (?:está|é|foi)\b|sarebbe\b|non è\b|is "
    r"niet\b|zou\b)",
    r"^[\s\"'`)*,;:–—-]{0,6}(?:是错|不正确|不对|没有(?:被)?(?:提到|支持)|は(?:誤り|間違い)|아니|неверно|не "
    r"(?:указан|упомянут))",
)
"""Right after a value: it is not the model's answer."""
RUN_ON = lazy_pattern(
    r"^[ \t>#*_\-]{0,8}(?:(?:(?:next|new|another|test|input|given|the|second|third)\s+)?(?:sentence|text|input|"
    r"question|prompt|query|passage|document|paragraph|user|human|instruction|example|context|article|task|abstract"
    r"|test sentence)"
    r"|satz|eingabe|frage|phrase|texte|entrée|oración|texto|frase|pregunta|sentença|pergunta|testo|domanda|zin|"
    r"tekst|предложение|текст|句子|文本|输入|问题|文|入力|문장|입력)"
    r"\s*(?:no\.?\s*)?#?\d{0,3}\s*[*_]{0,3}(?:[:：]|\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that gives an input: repeated before the answer, or made up after it."""
REFUSAL = _compiled(
    r"\bi(?:['’]m| am)?(?: sorry,?)?(?: but)?(?: i)?(?: really)? ?(?:can ?not|can['’]t|won['’]t|will not|am (?:not "
    r"able|unable)|['’]m (?:not able|unable)|do not feel|unable) (?:to )?(?:help|assist|comply|do (?:that|this)|"
    r"provide|fulfil|complete|process|generate|create|engage|continue|extract|respond|support|give|share|perform|"
    r"carry|offer|rate|judge|score|evaluate|split|discuss)",
    r"\bas an ai\b|against my|policy|policies|inappropriate|not comfortable|unable to (?:help|assist|comply)|"
    r"decline|must refuse|have to refuse|please (?:provide|share|give|paste|send)|could you (?:please )?(?:provide|"
    r"share|clarify)|no text (?:was|has been)",
    r"(?:kann|darf|möchte) (?:ich )?(?:dir |ihnen )?(?:dabei |damit |das )?(?:leider )?nicht (?:helfen|weiterhelfen"
    r"|unterstützen|tun)|tut mir leid, (?:aber )?(?:das|ich|dabei)|je ne peux pas (?:vous |t['’])?(?:aider|"
    r"répondre à cette demande)|no puedo (?:ayudar|asistir)|não posso (?:ajudar|atender)|non posso (?:aiutar|"
    r"assister)|kan (?:je |u )?(?:hier|daar)\w* niet (?:mee )?helpen",
    r"(?:无法|無法)(?:帮助|幫助|提供帮助|协助|協助|满足|滿足)|(?:无法|無法|不能)(?:处理|處理|回应|回應|完成|执行|執行)"
    r"[^。]{0,6}(?:请求|請求|要求)|不能(?:帮助|协助|提供)|お手伝いできません|対応できません|(?:リクエスト|要望|依頼)"
    r"[^。]{0,6}(?:応え|応じ|答え)[^。]{0,8}(?:ません|かねます)|도와드릴 수 없|요청[^.]{0,12}(?:수 없|어렵)|не "
    r"могу (?:помочь|выполнить)|не можу допомогти|nie mogę pomóc|inte hjälpa|không thể (?:giúp|hỗ trợ|đáp ứng)|tidak "
    r"(?:bisa|dapat) (?:membantu|memenuhi)|yardımcı olama|لا (?:أستطيع|يمكنني) (?:ال)?مساعد|मदद नहीं कर सक|να (?:σας )?"
    r"βοηθήσω",
)
"""The model does not do what was asked."""
OTHERS = _compiled(
    r"\b(?:other|others|else|further|additional(?:ly)?|more|remaining|rest|besides|beyond|apart from|except|"
    r"andere\w*|weitere\w*|sonst|übrige\w*|autres?|d['’]autres|otr[oa]s?|más|outr[oa]s?|mais|altr[aeio]|andra|inne|"
    r"další|другие|других|остальн\w+|başka)\b",
    r"其他|其它|别的|他の|それ以外|다른",
)
"""None beside those given."""
_THINGS = (
    r"(?:triples?|relations?(?:hips?)?|facts?|information|statements?|(?:named )?entit(?:y|ies)|predicates?|"
    r"propert(?:y|ies)|connections?|instances?|matches|match|evidence|details?|data|mentions?)"
)
NONE = _compiled(
    rf"\b(?:no|zero|not any|without(?: any)?|neither|none|0)\b(?:\s+(?:of\s+(?:the|these|those|its|"
    rf"them))?\s*[\w-]+){{0,5}}?\s*\b{_THINGS}\b",
    rf"\b(?:not|n['’]t)\b(?:\s+[\w-]+){{0,5}}?\s+(?:any|one)\b(?:\s+[\w-]+){{0,5}}?\s*\b{_THINGS}\b",
    r"\bnone of (?:the|these|those|its|them|your|my)\b|\b(?:found|finds?|there(?:['’]s| is| was)|contains?|states?|"
    r"expresses|mentions?|says?|gives?|extract(?:ed)?|contributes?|holds?|conveys?|has|have|includes?) (?:nothing|"
    r"none)\b|^\W*(?:none|nothing|n/?a|nil|no triples?|no relations?|not applicable|empty)\W*$|\bnothing (?:to "
    r"(?:extract|report|list|add)|that (?:applies|matches|fits)|is (?:stated|expressed|extractable)|applies|can be "
    r"extracted|relevant|matches|fits)",
    r"\b(?:empty (?:list|set|array|output|result)|is empty|cannot extract|can(?:not|['’]t) be extracted|nothing in "
    r"(?:the|this))\b|∅",
    r"\b(?:kein(?:e|en|er|es|em)?|nichts)\b",
    r"\baucun(?:e|s|es)?\b|\bne (?:\w+ ){1,3}(?:pas|rien|aucun\w*)\b|\brien\b|\bil n['’]y a (?:pas|aucun)|"
    r"\bn['’]\w+ (?:pas|aucun\w*)",
    r"\bningun[oa]?\b|\bningún\b|\bno (?:hay|contiene|expresa|menciona|existen?|se (?:\w+ ){0,2}(?:encuentr\w+|"
    r"mencion\w+|expres\w+|puede\w* extraer)|aparecen?|describe|enuncia|incluye|establece|ofrece|afirma)\b|\bnada\b",
    r"\bnenhum(?:a|as|s)?\b|\bnão (?:há|contém|expressa|menciona|existem?|se |foram|apresenta|inclui)\b",
    r"\bnessun(?:a|o|['’])|\bnon (?:contiene|ci sono|c['’]è|esprime|menziona|vi sono|esistono|include|presenta|"
    r"riporta|descrive)\b|\bniente\b|\bnulla\b",
    r"\bgeen\b|\bniets\b|\binga\b|\bingen\b|\binget\b|\bintet\b|\bikke\b|\bei (?:sisällä|ole|mainitse|löydy)\b",
    r"\b(?:нет|отсутству\w+|никак\w+|не (?:содерж\w+|выраж\w+|упомин\w+|найден\w+|указан\w+)|немає|не містить|"
    r"ничего)\b",
    r"\b(?:żadn\w+|nie (?:zawiera|ma|wyraża|wymienia|znaleziono)|brak|žádn\w+|neobsahuje|nejsou|není|nevyjadřuje|"
    r"nincs\w*|nem (?:tartalmaz|található)|yok\w*|içermi\w+|bulunmuyor|hiçbir|nu (?:conține|există|exprimă)|"
    r"niciun\w*|δεν (?:περιέχει|υπάρχ\w+)|tidak (?:ada|mengandung|memuat|terdapat)|không (?:có|chứa|nêu))\b",
    r"没有|沒有|不包含|未提及|未包含|无任何|未发现|未表达|并未|无关系|无三元组|不存在|ありません|含まれていません|"
    r"含みません|含まれない|存在しません|見つかりません|述べられていません|ない(?:。|$)|없습니다|없다|포함(?:하지|"
    r"되지|되어 있지) 않|나타내지 않|لا (?:توجد|يوجد|تحتوي|يحتوي|تذكر|يذكر)|नहीं|אין",
)
"""Said in words: there is nothing of what was asked for."""
_GIVEN = (
    r"(?:table|triples?|texts?|passages?|knowledge(?: base| graph)?|graph|data(?:base|set)?|context|rows?|facts?|"
    r"documents?|sources?|information|records?|kb)"
)
COMPLETE = _compiled(
    r"\b(?:no(?:thing|ne)?|not (?:any|a single))\b(?! (?:the|this|that|these|it|an?|one|as|since|because|there|its)"
    r"\b)(?: \w[\w'’-]*){0,5}? (?:is|are|was|were|seems?)\s+(?:missing|absent|"
    r"lacking|left out|unclear|wanting)\b|"
    r"\b(?:not|n['’]t|never)\s+(?:lack|miss)\w*\b|\bwithout (?:any )?gaps?\b|\blacks? nothing\b|"
    r"\bnothing (?:that )?(?:prevents|stops|hinders|speaks against)\b|"
    r"\b(?:everything|all)\b(?:\s+[\w'’-]+){0,5}?\s+(?:is|are)\s+(?:all\s+)?(?:there|present|given|available|included|"
    r"listed|here|in place)\b|\b(?:is|are) all (?:there|present|given|available|included|listed|here)\b",
)
"""Said in words: what was given lacks nothing."""
UNANSWERABLE = _compiled(
    r"\b(?:do|does|did)(?: not|n['’]t) know\b|\bno (?:idea|clue|way (?:to|of))\b|\b(?:cannot|can ?not|can['’]t|hard to|"
    r"impossible to|unable to)\s+(?:say|tell|know|look)\b|not be looked up\b",
    rf"\b(?:is|are|was|were)(?: not|n['’]t) (?:anywhere )?(?:in|within|among|part of|part|covered|told|shown|there)\b|"
    rf"\bnot (?:in|within|among|part of) (?:the|this|these|any|your|my)\b[^.!?\n]{{0,25}}\b{_GIVEN}\b",
    r"\bneither\b[^.!?\n]{1,80}\bnor\b[^.!?\n]{1,60}\b(?:states?|contains?|gives?|mentions?|says?|lists?|provides?|"
    r"includes?|holds?|names?|tells?|answers?|shows?|has|have)\b",
    r"\bthere(?:['’]s| is| are| was| were| exists?) no(?! (?:doubt|question|problem|need|gap|issue|missing|reason|"
    r"contradiction|ambiguity))\b|\b(?:has|have|contains?|gives?|provides?|lists?|offers?|holds?|shows?|includes?|"
    r"states?|mentions?|names?) (?:no|neither)\b|\b(?:lacks|silent (?:on|about))\b",
    r"\b(?:does|do|did)(?: not|n['’]t)(?:\s+[\w'’-]+){0,3}?\s+(?:appear|occur|exist|name|tell|connect|link|reach)\b"
    r"|\b(?:never|nowhere|fails? to)\s+(?:mention|stat|giv|say|list|specif|nam|tell|provid|contain|includ)\w*\b"
    r"|\b(?:is|are|was|were)(?: not|n['’]t)(?: \w+)? (?:specified|provided|named|recorded|known|disclosed|"
    r"reported|shown|covered)\b|"
    r"\b(?:is|are) (?:unavailable|unclear|undisclosed|unspecified|unstated)\b|\b(?:is|are)n['’]t any\b",
    r"^\W*(?:it is |that is |this is )?not (?:explicitly |directly |anywhere )?(?:stated|mentioned|found|given|listed|"
    r"specified|provided|available|present|known|enough|sufficient|possible|there|here|included|answered|covered)\b",
    r"\b(?:can(?:not|['’]t| not)|could(?: not|n['’]t)|impossible to|not possible to|no way to|unable to|not able to"
    r"|insufficient|not (?:enough|sufficient|adequate)|lack(?:s|ing)? (?:the |enough |sufficient )?|too "
    r"little)(?:\s+[\w'’-]+){0,7}?\s*\b(?:answer(?:ed)?|determin(?:e|ed)|conclude[d]?|infer(?:red)?|deduced?|"
    r"derived?|found|find|established?|information|data|facts?|evidence|know(?:n)?|identif(?:y|ied)|resolved?|told|"
    r"inferred|context|concluded)\b",
    r"\b(?:insufficient|not enough|too little|not sufficient|lacks? (?:the )?(?:information|data|necessary|required"
    r"|facts?))\b",
    r"\b(?:does|do|is|are|did)(?: not|n['’]t)(?:\s+[\w'’-]+){0,6}?\s*\b(?:contain|include|provide|mention|state|"
    r"list|give|say|hold|have|specify|cover|answer(?:able)?|present|available|given|stated|found|sufficient|enough|"
    r"mentioned|included|listed|show|support|allow|tell)\b",
    r"\bunanswerable\b|\bnot answerable\b|\bno (?:answer|information|data|entry|row|record|match|evidence|such|fact"
    r"|triple|mention|relevant)\b|\bnothing\b|\bnone\b|\bunknown\b|\b(?:is|are) (?:missing|absent|lacking)\b|"
    r"\bno(?:body|where)\b|\bn/a\b",
    r"\b(?:aucune? (?:réponse|information|donnée|mention)|ningun[ao]? (?:respuesta|información|dato)|nenhuma? "
    r"(?:resposta|informação|dado)"
    r"|nessuna (?:risposta|informazione)|geen (?:antwoord|informatie|gegevens))\b",
    r"(?:nicht|unmöglich)(?:\s+\w+){0,4}?\s+(?:beantwort\w+|bestimm\w+|ermittel\w+|hervor|möglich|entnehmen|"
    r"feststell\w+|enthalten|genannt|angegeben|ableit\w+|genannt|erwähnt)|lässt sich\b[^.]{0,60}\bnicht\b|"
    r"\bkeine?\b[^.]{0,60}\b(?:antwort|angabe\w*|information\w*|daten)|(?:enthält|nennt|gibt|steht|enthalten|"
    r"liefert|reicht|reichen)\b[^.]{0,50}\b(?:nicht|kein\w*)\b|unbeantwortbar",
    r"ne (?:peut|permet\w*|contien\w+|mentionne\w*|donne\w*|fourni\w+|figure\w*|suffi\w+)\b[^.]{0,40}\b(?:pas|"
    r"aucun\w*)|impossible de|n['’](?:est|a|y)\b[^.]{0,30}\b(?:pas|aucun\w*)|ne sont pas|insuffisant\w*|sans "
    r"réponse",
    r"\bno (?:se |es |está |están |hay |contiene|permite\w*|aparece\w*|figura\w*|incluye\w*|puede|menciona\w*|"
    r"proporciona\w*|basta\w*|contienen)|imposible|insuficiente\w*|não (?:é|se|pode|há|contém|permite\w*|consta|foi"
    r"|está|contêm|inclui)|impossível|non (?:è|si|può|contien\w+|ci|permett\w+|compare|basta\w*|sono)|impossibile|"
    r"insufficient[ei]|(?:kan|kunnen) niet|niet (?:te|worden|mogelijk|beantwoord|vermeld|genoeg|in de)|onvoldoende|"
    r"går inte|kan inte|otillräcklig\w*|kan ikke|ei voi(?:da)?",
    r"невозможно|нельзя|не (?:содерж|указан|хватает|позволя|отвеча|упомин|могу|достаточно)\w*|недостаточно|нет\b|"
    r"неможливо|nie (?:można|da się|zawiera|podano|wystarcz\w+|ma|jest)|niemożliw\w+|brak\b|nelze|není|neobsahuje|"
    r"yanıtlanamaz|cevaplanamaz|yeterli değil|içermi\w+|yok\b|nem (?:lehet|válaszol\w+)|nu (?:se|poate|conține)|"
    r"tidak (?:dapat|bisa|ada|cukup)|không (?:thể|có|đủ)|δεν (?:μπορεί|περιέχει|υπάρχ\w+)",
    r"无法|無法|不能|不足|没有|沒有|未(?:提及|提供|包含|给出|说明)|不包含|缺少|缺乏|不够|不可能|できません|できない"
    r"|ありません|不十分|含まれて(?:いません|いない)|答えられ(?:ません|ない)|わかりません|없습니다|없다|불가능|부족"
    r"|않습니다|لا (?:يمكن|توجد|يوجد|تحتوي|يحتوي|تكفي)|नहीं|לא ניתן",
)
"""Said in words: what was given does not hold the answer."""
BUT = (
    r"(?:but|however|except|yet|though not|only|aber|jedoch|mais|pero|mas|ma|però|maar|но|однако|但|不过|しかし|ただし)"
)
PARTLY = lazy_pattern(
    r"\b(?:partial(?:ly)?|partly|somewhat|mostly|largely|half|in part|to some extent|teilweise|en partie|parcialmente|"
    r"parzialmente|deels|частично|częściowo)\b|部分|一部|부분",
    re.IGNORECASE,
)
LIMITED = lazy_pattern(
    rf"{PARTLY.pattern}|"
    r"\b(?:(?<!without )(?<!no )except(?!ional)\w*|assum(?:e|ing)|provided that|supports? (?:only )?(?:a )?part|"
    r"apart from|aside from|other than|save (?:for )?the|bar(?:ring)? the|(?:all|every\w+|anything|none) but|"
    r"but (?:not|for|only|one|the|its)|though not|nearly|almost|barely|far from|only (?:the |its )?(?:first|second|"
    r"half|part|subject|object|if|when)|außer|bis auf|ausgenommen|abgesehen|sauf|excepté|hormis|à l['’]exception|"
    r"excepto|salvo|exceto|menos|tranne|eccetto|behalve|кроме|за исключением|oprócz|utom|(?:is|are|does|"
    r"do) not(?=\W*$))\b"
    rf"|n['’]t(?=\W*$)|除|以外|之外|を除|제외|^\W*[^\W\d]+\W{{0,4}}{BUT}(?![a-zа-я])|"
    rf"[,，]\s*{BUT}(?![a-zа-я])[^.]{{0,80}}"
    r"(?:\b(?:not|no|wrong|different|missing|differs)\b|不|没)",
    re.IGNORECASE,
)
"""What makes a yes one of a part: "everything but the last hop", "yes, but not the relation"."""
NOTHING_BEFORE = lazy_pattern(
    r"(?:^|[\s(])(?:no|nothing|not (?:all|every\w*|each))(?:\s+(?!and\b|but\b|or\b)\w+){0,4}\s*$", re.IGNORECASE
)
NOT_WHOLLY = lazy_pattern(r"not (?:fully|entirely|completely|wholly|quite|really|exactly|at all|yet)\b", re.IGNORECASE)
OPPOSITE = lazy_pattern(
    r"\b(?:opposite|otherwise|reverse\w*|instead|contrary|another|different|other)\b", re.IGNORECASE
)
UNSAID = lazy_pattern(
    r"(?:\b(?:does|do|did|is|are) not|n['’]t|\bnever|\bnowhere) (?:\w+ly )?(?:mention|say|state|give|contain|support|"
    r"includ|appear)\w*(?! (?:otherwise|anything else|the opposite))",
    re.IGNORECASE,
)
OUTER_DENIAL = lazy_pattern(
    r"(?:\bnot (?:the case|true|clear|correct|accurate)(?: to say)?,? that|(?:\b(?:can|could|would|do|does|did) ?not|"
    r"n['’]t) (?:be )?(?:say|said|think|believe|claim(?:ed)?|conclude[d]?|agree)\b|\bi (?:\w+ )?doubt\b|\bdoubtful\b|"
    r"\bno reason to)[^,;]*$",
    re.IGNORECASE,
)
"""A denial of all that the sentence says: "I do not think that ..."."""
