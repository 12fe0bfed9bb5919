"""Texts that people write in the demonstration, by language: reasons, and notes as (participant's place, day, text)."""

REASONS: dict[str, dict[int, str]] = {
    "en": {
        5: "on holiday until Monday",
        16: "in hospital for a check-up",
        8: "has moved away",
        22: "would rather not be called any more",
    },
    "de": {
        5: "im Urlaub bis Montag",
        16: "zur Untersuchung im Krankenhaus",
        8: "ist weggezogen",
        22: "möchte nicht mehr angerufen werden",
    },
    "fr": {
        5: "en vacances jusqu'à lundi",
        16: "à l'hôpital pour un examen",
        8: "a déménagé",
        22: "préfère ne plus être appelé",
    },
}
NOTES: dict[str, list[tuple[int, int, str]]] = {
    "en": [
        (2, 6, "Is easiest to reach after six in the evening."),
        (11, 11, "Walks with her neighbour now, and is glad of it."),
        (3, 14, "The wristband gave him a rash; he wears it on the other arm."),
        (19, 17, "Asked whether swimming counts. It does."),
        (27, 20, "Was in a hurry. Prefers to be called before lunch."),
        (14, 22, "Knee hurts on stairs. Told to rest it, and to ask her doctor on Thursday."),
        (0, 22, "Sounded cheerful. Two walks a day since Sunday."),
    ],
    "de": [
        (2, 6, "Ist am besten nach 18 Uhr zu erreichen."),
        (11, 11, "Geht jetzt mit der Nachbarin spazieren und freut sich darüber."),
        (3, 14, "Hautausschlag unter dem Armband; er trägt es jetzt am anderen Arm."),
        (19, 17, "Fragt, ob Schwimmen zählt. Ja."),
        (27, 20, "War in Eile. Möchte lieber vor dem Mittagessen angerufen werden."),
        (14, 22, "Das Knie schmerzt auf der Treppe. Soll es schonen und am Donnerstag in der Praxis fragen."),
        (0, 22, "Klang vergnügt. Seit Sonntag zwei Spaziergänge am Tag."),
    ],
    "fr": [
        (2, 6, "Se joint le mieux après 18 heures."),
        (11, 11, "Marche maintenant avec sa voisine et en est contente."),
        (3, 14, "Le bracelet irritait la peau ; il le porte à l'autre bras."),
        (19, 17, "A demandé si la natation compte. Oui."),
        (27, 20, "Était pressée. Préfère être appelée avant midi."),
        (14, 22, "Mal au genou dans l'escalier. Doit le ménager et en parler au médecin jeudi."),
        (0, 22, "De bonne humeur. Deux marches par jour depuis dimanche."),
    ],
}
