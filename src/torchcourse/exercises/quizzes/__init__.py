"""The exercises of lesson 15, quizzes: predictors, checked against PyTorch itself."""
