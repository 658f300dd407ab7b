"""Beginnings of user turns that the target completes itself (after Magpie, arXiv:2406.08464).

A bare user turn gives a small model too much freedom: it drifts. A few first words keep it on
ordinary requests.
"""

OPENINGS = (
    "How do I", "How can I", "How does", "How would you", "How many", "How should I",
    "What is", "What are", "What is the difference between", "What should I", "What would happen",
    "What causes", "What are some", "What does", "Why do", "Why does", "Why is", "Why are",
    "When should I", "Where can I", "Who was", "Which", "Can you", "Can you explain",
    "Can you help me", "Could you", "Could you write", "Please write", "Please explain",
    "Please give me", "Please help me", "Write a", "Write a short", "Write a story about",
    "Write an email to", "Write a Python function that", "Write a Python script to",
    "Write a SQL query that", "Write a JavaScript function", "Write a letter", "Write a poem",
    "Write a product description for", "Write a recipe for", "Write a blog post about",
    "Explain", "Explain how", "Explain why", "Explain the concept of", "Explain to a child",
    "Give me", "Give me a list of", "Give me five", "Give me advice on", "List", "List five",
    "List the steps to", "Describe", "Describe a", "Compare", "Summarize", "Summarise the main",
    "Tell me about", "Tell me a story about", "Suggest", "Suggest three", "Create a",
    "Create a table of", "Create a plan for", "Create a JSON object that", "Make a",
    "Design a", "Develop a", "Generate a", "Generate a list of", "Translate", "Rewrite",
    "Rewrite the following sentence", "Edit the following text", "Correct the grammar of",
    "I want to", "I need help with", "I am trying to", "I have a", "I'm planning a",
    "My friend", "My computer", "Is it", "Is there", "Are there", "Do you know", "Should I",
    "If a train", "If I have", "A store sells", "Calculate", "Solve", "Convert", "Find the",
    "Hi!", "Hello, I", "Imagine", "In Python,", "In the", "Let's", "Discuss", "Outline",
)  # fmt: skip
