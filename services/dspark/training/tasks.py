"""Plain requests of the usual kinds: what is asked, about what."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

TEXT = "{text}"
SUBJECT = "{subject}"

ABOUT_SUBJECTS = (
    "Explain {subject} in simple terms.",
    "Explain step by step how {subject} works.",
    "What are the advantages and disadvantages of {subject}?",
    "Give me a list of ten facts about {subject}.",
    "List the main parts of {subject} with one sentence for each.",
    "Write a short story about {subject}.",
    "Write a short story for children in which {subject} plays a role.",
    "Write a friendly email to a colleague about {subject}.",
    "Write a formal letter about a problem with {subject}.",
    "Write a poem about {subject}.",
    "What should a beginner know about {subject}?",
    "Give step-by-step instructions for someone who wants to learn about {subject}.",
    "Compare {subject} with something similar in a table.",
    "Create a JSON object that describes {subject} with name, description, tags and price.",
    "Write a JSON array of five entries about {subject}, each with id, title and year.",
    "Create a one-week plan for getting started with {subject}.",
    "Write a dialogue between two friends about {subject}.",
    "Write five questions and answers about {subject}.",
    "Give me five tips about {subject}.",
    "Describe {subject} to someone who has never heard of it.",
    "Write an introduction for a blog post about {subject}.",
    "What is the history of {subject}?",
    "Who needs {subject}, and why?",
    "Write a Python class that models {subject}, with two methods and an example.",
    "Write a SQL table definition and three queries for data about {subject}.",
    "Write an HTML page about {subject}.",
    "Solve step by step: a shop sells {subject} for 12 dollars each and gives 15 percent off for"
    " orders above 100 dollars. What do 11 of them cost?",
)
SUBJECTS = (
    "a bicycle", "a camera", "a coffee machine", "a compass", "a garden", "a hospital",
    "a library", "a lighthouse", "a market", "a microscope", "a neural network", "a piano",
    "a rocket", "a school", "a telescope", "a thermostat", "a train station", "a volcano",
    "a washing machine", "a weather station", "a wind turbine", "an airport", "an aquarium",
    "an electric car", "an orchestra", "bees", "bread", "bridges", "butterflies", "calendars",
    "cheese", "chess", "climate change", "clouds", "compost", "computer networks", "coral reefs",
    "credit cards", "crystals", "dance", "databases", "deserts", "dinosaurs", "dogs", "dreams",
    "earthquakes", "elections", "electricity", "exercise", "first aid", "fishing", "forests",
    "friendship", "glaciers", "glass", "gravity", "healthy food", "hiking", "house plants",
    "insurance", "inventory", "islands", "job interviews", "kites", "languages", "magnets",
    "maps", "meditation", "money", "mountains", "museums", "music", "newspapers", "oceans",
    "online shopping", "orders", "owls", "paper", "passwords", "photosynthesis", "planets",
    "public transport", "rain", "recycling", "rivers", "robots", "salaries", "salt", "sleep",
    "snow", "soccer", "solar panels", "spiders", "steam engines", "students", "tea", "teamwork",
    "the heart", "the immune system", "the internet", "the moon", "time management", "tomatoes",
    "traffic lights", "trees", "vaccines", "vegetables", "video games", "water", "whales", "wool",
)  # fmt: skip
WITH_TEXT = (
    "Summarise the following text in three sentences:\n\n{text}",
    "Summarize this in one sentence:\n\n{text}",
    "Translate the following text into French:\n\n{text}",
    "Translate the following text into Spanish:\n\n{text}",
    "Rewrite the following text in a more formal tone:\n\n{text}",
    "Rewrite the following text in a friendlier tone:\n\n{text}",
    "Correct the spelling and grammar of this text:\n\n{text}",
    "List the key points of this text:\n\n{text}",
    "Answer with the text only. What is this text about?\n\n{text}",
    "Read this text and then write three questions about it:\n\n{text}",
    "Extract the names and numbers of this text as JSON:\n\n{text}",
    "Repeat this text with each sentence on a line of its own:\n\n{text}",
)
MAX_TEXT_CHARS = 700


def subject_tasks(chance: random.Random) -> Iterator[str]:
    """Every task about every subject, once, in a random order; then again from the start."""
    pairs = list(itertools.product(ABOUT_SUBJECTS, SUBJECTS))
    while True:
        chance.shuffle(pairs)
        for task, subject in pairs:
            yield task.replace(SUBJECT, subject)


def text_task(texts: Sequence[str], chance: random.Random) -> str:
    """A task on the beginning of one of ``texts``, of which there must be at least one."""
    text = chance.choice(texts)[:MAX_TEXT_CHARS].rsplit(".", 1)[0] + "."
    return chance.choice(WITH_TEXT).replace(TEXT, text)
